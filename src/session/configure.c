/*
 * configure.c - what CREATE EXTENSION, op_provider_add(), op_action_add() and
 * op_provider_resume() need besides SQL, and UPDATEs by hand.
 *
 * The SQL functions decide what is merged with what and write the rows; what a
 * spec may say is decided in spec/profile.c, which is called here. And the
 * processes are told at commit that there is something new for them.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "base/compat.h"
#include "base/wake.h"
#include "commands/trigger.h"
#include "fmgr.h"
#include "spec/profile.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(_op_merge);
PG_FUNCTION_INFO_V1(_op_check_spec);
PG_FUNCTION_INFO_V1(_op_check_part);
PG_FUNCTION_INFO_V1(_op_place);
PG_FUNCTION_INFO_V1(_op_account_follows);
PG_FUNCTION_INFO_V1(_op_created);
PG_FUNCTION_INFO_V1(_op_wake);

/* (under, over) -> merged */
Datum
_op_merge(PG_FUNCTION_ARGS)
{
	PG_RETURN_JSONB_P(profile_merge(PG_GETARG_JSONB_P(0), PG_GETARG_JSONB_P(1)));
}

/* (name, merged): raises what is wrong, says what it costs */
Datum
_op_check_spec(PG_FUNCTION_ARGS)
{
	char     *name = text_to_cstring(PG_GETARG_TEXT_PP(0));
	Spec     *spec = profile_parse(name, PG_GETARG_JSONB_P(1));
	ListCell *cell;

	foreach (cell, profile_notices(spec))
		ereport(NOTICE, errmsg("action \"%s\": %s", name, (char *) lfirst(cell)));
	PG_RETURN_VOID();
}

/* (what, part, provider_level): raises what is wrong */
Datum
_op_check_part(PG_FUNCTION_ARGS)
{
	profile_check_part(text_to_cstring(PG_GETARG_TEXT_PP(0)), PG_GETARG_JSONB_P(1),
					   PG_GETARG_BOOL(2));
	PG_RETURN_VOID();
}

/* (merged) -> the place that it names */
Datum
_op_place(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(spec_place(PG_GETARG_JSONB_P(0)));
}

/* Another secret is another account's. Only here it can be told whether the UPDATE sets
 * the account: to what it was, too. */
Datum
_op_account_follows(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;
	TupleDesc    descriptor;
	int          column;
	Datum        value = (Datum) 0;
	bool         null = true;

	if (!CALLED_AS_TRIGGER(fcinfo) || !TRIGGER_FIRED_BEFORE(trigger->tg_event) ||
		!TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) ||
		!TRIGGER_FIRED_FOR_ROW(trigger->tg_event))
		ereport(
			ERROR,
			(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
			 errmsg("_op_account_follows() is a trigger before UPDATE for each row")));
	descriptor = RelationGetDescr(trigger->tg_relation);
	column = get_attnum(RelationGetRelid(trigger->tg_relation), "account");
	if (column == InvalidAttrNumber)
		elog(ERROR, "op_provider has no column \"account\"");
	if (bms_is_member(column - FirstLowInvalidHeapAttributeNumber,
					  trigger->tg_updatedcols))
		return PointerGetDatum(trigger->tg_newtuple);
	return PointerGetDatum(heap_modify_tuple_by_cols(trigger->tg_newtuple, descriptor, 1,
													 &column, &value, &null));
}

/* CREATE EXTENSION: the launcher looks at this database. */
Datum
_op_created(PG_FUNCTION_ARGS)
{
	wake_launcher_at_commit();
	PG_RETURN_VOID();
}

/* The worker takes a turn. */
Datum
_op_wake(PG_FUNCTION_ARGS)
{
	wake_worker_at_commit();
	PG_RETURN_VOID();
}
