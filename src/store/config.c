/*
 * config.c - has the configuration changed?
 *
 * op_submit() asks for three rows of configuration each time, and they hardly ever
 * change. So whatever changes one says so, as DDL does: by an invalidation of the
 * table, which PostgreSQL brings to every session when it is committed, takes back
 * when it is not, and sends by itself when triggers are switched off or on.
 */
#include "postgres.h"

#include "base/compat.h"
#include "store/config.h"

#include "access/xact.h"
#include "commands/trigger.h"
#include "fmgr.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(_op_config_changed);

static const char *const tables[] = {"op_profile", "op_provider", "op_action"};

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
config_edition(Oid schema)
{
	static bool watching = false;

	if (!watching)
	{
		CacheRegisterRelcacheCallback(relation_changed, (Datum) 0);
		watching = true;
	}
	AcceptInvalidationMessages();
	if (known_schema != schema)
	{
		for (int i = 0; i < lengthof(tables); i++)
			oids[i] = get_relname_relid(tables[i], schema);
		known_schema = schema;
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
