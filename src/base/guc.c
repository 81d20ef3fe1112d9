/*
 * guc.c - every setting of op_ledger.
 */
#include "postgres.h"

#include "base/guc.h"

#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/varlena.h"

bool  opl_enabled = true;
int   opl_workers = 1;
int   opl_failover = FAILOVER_STOP;
char *opl_databases = NULL;
char *opl_secret_dir = NULL;

static const struct config_enum_entry failovers[] = {
	{"stop", FAILOVER_STOP, false},
	{"continue", FAILOVER_CONTINUE, false},
	{NULL, 0, false}};

static bool
check_databases(char **value, void **extra, GucSource source)
{
	char *copy = pstrdup(*value);
	List *names;
	bool  valid = SplitIdentifierString(copy, ',', &names);

	if (!valid)
		GUC_check_errdetail("It is a list of database names, separated by commas.");
	list_free(names);
	pfree(copy);
	return valid;
}

void
guc_define(void)
{
	DefineCustomBoolVariable("op_ledger.enabled",
							 "Sends operations; off stops every worker.",
							 "Operations that are submitted meanwhile wait.",
							 &opl_enabled, true, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomStringVariable(
		"op_ledger.databases", "Databases that may have a worker, separated by commas.",
		"Empty: every database that has the extension.", &opl_databases, "", PGC_SIGHUP,
		0, check_databases, NULL, NULL);
	DefineCustomStringVariable(
		"op_ledger.secret_dir", "Directory of the files that secrets are read from.",
		"A relative path is inside the data directory; outside of it "
		"a copy of the data holds no secrets.",
		&opl_secret_dir, "op_ledger_secrets", PGC_SIGHUP, GUC_SUPERUSER_ONLY, NULL, NULL,
		NULL);
	DefineCustomIntVariable(
		"op_ledger.workers", "Workers per database.",
		"They share a provider's concurrency; one is enough for most.", &opl_workers, 1,
		1, OPL_WORKERS_MAX, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable(
		"op_ledger.failover", "What follows when this server was promoted.",
		"stop: nothing is sent until op_adopt(). continue: go on by itself, where the "
		"standby lost nothing or keys make up for it.",
		&opl_failover, FAILOVER_STOP, failovers, PGC_SIGHUP, 0, NULL, NULL, NULL);
	MarkGUCPrefixReserved("op_ledger");
}

bool
guc_allows_database(const char *name)
{
	char     *copy = pstrdup(opl_databases);
	List     *names = NIL;
	ListCell *lc;
	bool      found = false;

	SplitIdentifierString(copy, ',', &names);
	foreach (lc, names)
		found = found || strcmp((char *) lfirst(lc), name) == 0;
	found = found || names == NIL;
	list_free(names);
	pfree(copy);
	return found;
}
