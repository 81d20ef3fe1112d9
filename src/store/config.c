/*
 * config.c - op_profile, op_provider and op_action: whom we call, and what for.
 *
 * Written by the functions of SQL that configure, under their statements' locks; here
 * only to pause a provider.
 *
 * op_submit() asks for three rows of configuration each time, and they hardly ever
 * change. So whatever changes one says so, as DDL does: by an invalidation of the
 * table, which PostgreSQL brings to every session when it is committed, takes back
 * when it is not, and sends by itself when triggers are switched off or on. What was
 * read can be kept as long as the edition, which counts these, stays the same.
 */
#include "postgres.h"

#include "base/clock.h"
#include "base/compat.h"
#include "store/config.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "fmgr.h"
#include "store/event.h"
#include "store/scanner.h"
#include "store/spi.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(_op_config_changed);

/* Only what is read row by row, when the edition has changed. */
#define ACTION_COLUMNS(X)               \
	X(name, TEXTOID, SCANNER_FIXED)     \
	X(provider, TEXTOID, SCANNER_FIXED) \
	X(version, INT8OID, SCANNER_FIXED)

#define PROVIDER_COLUMNS(X)            \
	X(name, TEXTOID, SCANNER_FIXED)    \
	X(profile, TEXTOID, SCANNER_FIXED) \
	X(paused, BOOLOID, SCANNER_FIXED)  \
	X(version, INT8OID, SCANNER_FIXED)

#define PROFILE_COLUMNS(X)          \
	X(name, TEXTOID, SCANNER_FIXED) \
	X(version, INT8OID, SCANNER_FIXED)

enum
{
#define X(name, type, acts) Action_##name,
	ACTION_COLUMNS(X)
#undef X
};

enum
{
#define X(name, type, acts) Provider_##name,
	PROVIDER_COLUMNS(X)
#undef X
};

enum
{
#define X(name, type, acts) Profile_##name,
	PROFILE_COLUMNS(X)
#undef X
};

static const ScannerColumn action_columns[] = {ACTION_COLUMNS(SCANNER_COLUMN)};
static const ScannerColumn provider_columns[] = {PROVIDER_COLUMNS(SCANNER_COLUMN)};
static const ScannerColumn profile_columns[] = {PROFILE_COLUMNS(SCANNER_COLUMN)};
static ScannerMap          action_map;
static ScannerMap          provider_map;
static ScannerMap          profile_map;

static const ScannerTable action_table = {.name = "op_action",
										  .ncolumns = lengthof(action_columns),
										  .columns = action_columns,
										  .map = &action_map};
static const ScannerTable provider_table = {.name = "op_provider",
											.ncolumns = lengthof(provider_columns),
											.columns = provider_columns,
											.map = &provider_map};
static const ScannerTable profile_table = {.name = "op_profile",
										   .ncolumns = lengthof(profile_columns),
										   .columns = profile_columns,
										   .map = &profile_map};

/* ------------------------------------------------------------------ edition */

static const ScannerTable *const tables[] = {&action_table, &provider_table,
											 &profile_table};

static Oid    oids[lengthof(tables)];
static Oid    known_schema = InvalidOid; /* where the oids are from; invalid: ask */
static uint64 edition = 1;

/* May run whenever a lock is taken. */
static void
relation_changed(Datum arg, Oid relation)
{
	for (int i = 0; i < lengthof(tables); i++)
	{
		if (OidIsValid(relation) && relation != oids[i])
			continue;
		edition++;
		known_schema = InvalidOid;
		return;
	}
}

uint64
config_edition(const Ledger *ledger)
{
	static bool watching = false;

	if (!watching)
	{
		CacheRegisterRelcacheCallback(relation_changed, (Datum) 0);
		watching = true;
	}
	AcceptInvalidationMessages();
	if (known_schema != ledger->schema)
	{
		for (int i = 0; i < lengthof(tables); i++)
			oids[i] = get_relname_relid(tables[i]->name, ledger->schema);
		known_schema = ledger->schema;
		edition++;
	}
	return IsolationUsesXactSnapshot() ? 0 : edition;
}

Datum
_op_config_changed(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
						errmsg("_op_config_changed() is a trigger")));
	CacheInvalidateRelcache(trigger->tg_relation);
	return PointerGetDatum(NULL);
}

/* ------------------------------------------------------------------ actions */

/* A profile that is gone says nothing. */
static int64
profile_version(Scanner *command, const char *name)
{
	Scanner *s = scanner_open_beside(command, &profile_table, SCANNER_READ);
	int64 version = scanner_find_text(s, name) ? scanner_bigint(s, Profile_version) : 0;

	scanner_close(s);
	return version;
}

static bool
read_provider(Scanner *command, const char *name, int64 *version, bool *paused)
{
	Scanner *s = scanner_open_beside(command, &provider_table, SCANNER_READ);
	bool     found = scanner_find_text(s, name);

	if (found)
	{
		*version ^= scanner_bigint(s, Provider_version) ^
					profile_version(command, scanner_text(s, Provider_profile));
		*paused = scanner_bool(s, Provider_paused);
	}
	scanner_close(s);
	return found;
}

/* An edition is about what is committed now, so the caller's snapshot, which may be
 * older, is not asked. */
static Ledger
as_of_now(const Ledger *ledger)
{
	Ledger now = *ledger;

	now.snapshot_of_caller = false;
	return now;
}

bool
config_action(const Ledger *ledger, const char *action, char **provider, int64 *version,
			  bool *paused)
{
	Ledger   now = as_of_now(ledger);
	Scanner *s = scanner_open(&now, &action_table, SCANNER_READ);
	bool     found = scanner_find_text(s, action);

	if (found)
	{
		*provider = scanner_text(s, Action_provider);
		*version = scanner_bigint(s, Action_version);
		found = read_provider(s, *provider, version, paused);
	}
	scanner_close(s);
	return found;
}

Jsonb *
config_spec(const Ledger *ledger, const char *action)
{
	static const SpiStatement merged = {"SELECT @._op_whole_spec($1)", 1, {TEXTOID}};
	Datum                     values[] = {CStringGetTextDatum(action)};
	Jsonb                    *spec = NULL;

	if (spi_run(ledger, &merged, values, NULL) > 0)
		spec = spi_varlena(ledger, 0, 1);
	spi_done();
	return spec;
}

char **
config_actions(const Ledger *ledger, const char *provider, int *count)
{
	static const SpiStatement names = {
		"SELECT name FROM @.op_action WHERE provider = $1 OR $1 IS NULL ORDER BY name",
		1,
		{TEXTOID}};
	Datum  values[] = {provider ? CStringGetTextDatum(provider) : (Datum) 0};
	uint64 n = spi_run(ledger, &names, values, provider ? " " : "n");
	char **actions = palloc(sizeof(char *) * Max(n, 1));

	*count = (int) n;
	for (int i = 0; i < *count; i++)
		actions[i] = spi_text(ledger, i, 1);
	spi_done();
	return actions;
}

/* ---------------------------------------------------------------- providers */

/* What was read of them, for as long as that is of one edition. */
static struct
{
	uint64          edition;
	MemoryContext   context;
	LedgerProvider *providers;
	int             count;
} kept;

static LedgerProvider *
read_providers(const Ledger *ledger, int *count)
{
	static const SpiStatement all = {
		"SELECT p.name, p.paused,"
		"       coalesce(p.spec ->> 'concurrency', f.spec -> 'provider' ->> "
		"'concurrency',"
		"                '64')::integer"
		"  FROM @.op_provider AS p LEFT JOIN @.op_profile AS f ON f.name = p.profile"};
	uint64          n = spi_run(ledger, &all, NULL, NULL);
	LedgerProvider *read = palloc(sizeof(LedgerProvider) * Max(n, 1));

	*count = (int) n;
	for (int i = 0; i < *count; i++)
	{
		read[i].name = spi_text(ledger, i, 1);
		read[i].paused = spi_bool(i, 2);
		read[i].concurrency = spi_int(i, 3);
	}
	spi_done();
	return read;
}

static void
keep(uint64 of_edition, const LedgerProvider *read, int n)
{
	if (!kept.context)
		kept.context = AllocSetContextCreate(TopMemoryContext, "op_ledger providers",
											 ALLOCSET_SMALL_SIZES);
	kept.edition = 0;
	MemoryContextReset(kept.context);
	kept.providers = MemoryContextAlloc(kept.context, sizeof(LedgerProvider) * Max(n, 1));
	for (int i = 0; i < n; i++)
	{
		kept.providers[i] = read[i];
		kept.providers[i].name = MemoryContextStrdup(kept.context, read[i].name);
	}
	kept.count = n;
	kept.edition = of_edition;
}

LedgerProvider *
config_providers(const Ledger *ledger, int *count)
{
	uint64          present = config_edition(ledger);
	LedgerProvider *read;

	if (present == 0 || present != kept.edition)
	{
		read = read_providers(ledger, count);
		if (present == 0)
			return read;
		keep(present, read, *count);
	}
	*count = kept.count;
	return kept.providers;
}

LedgerProvider *
config_provider(const Ledger *ledger, const char *name)
{
	int             n;
	LedgerProvider *providers = config_providers(ledger, &n);

	for (int i = 0; i < n; i++)
	{
		if (strcmp(providers[i].name, name) == 0)
			return &providers[i];
	}
	return NULL;
}

bool
config_pause(const Ledger *ledger, const char *provider, const char *note)
{
	static const SpiStatement pause = {
		"UPDATE @.op_provider"
		"   SET paused = true, paused_at = $2, paused_note = $3, paused_by = NULL"
		" WHERE ctid = ANY (ARRAY (SELECT ctid FROM @.op_provider"
		"                           WHERE name = $1 AND NOT paused"
		"                           FOR NO KEY UPDATE SKIP LOCKED))",
		3,
		{TEXTOID, TIMESTAMPTZOID, TEXTOID}};
	Datum values[] = {CStringGetTextDatum(provider), TimestampTzGetDatum(clock_now()),
					  CStringGetTextDatum(note)};
	bool  paused = spi_run(ledger, &pause, values, NULL) > 0;

	spi_done();
	if (paused)
		event_insert(ledger, NULL, "op_ledger", "provider_paused",
					 psprintf("%s: %s", provider, note));
	return paused;
}
