/*
 * guard.c - what keeps hands off: the trigger that every row of op_operation passes,
 * the worker's and those written by hand; the one of what the extension ships; and
 * op_transitions(), which lists what the first lets pass.
 *
 * What an operation is never changes, its state follows the arrows, and values
 * are in their ranges. The last would be the work of CHECK constraints; but the
 * server parses those anew for each statement, which was a fifth of op_submit().
 */
#include "postgres.h"

#include "base/compat.h"
#include "commands/extension.h"
#include "commands/trigger.h"
#include "rules/decide.h"
#include "base/errors.h"
#include "fmgr.h"
#include "funcapi.h"
#include "rules/state.h"
#include "store/operation.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(_op_guard);
PG_FUNCTION_INFO_V1(op_transitions);
PG_FUNCTION_INFO_V1(_op_shipped);

/* Columns that the guard looks at. */
enum
{
	OP_ID, /* the first ones are what the operation is */
	ACTION,
	PROVIDER,
	ARGS_HASH,
	STATE,
	SEALED,
	GENERATION,
	ATTEMPTS,
	TRIES,
	NGUARDED
};

#define NIDENTITY STATE

static const int guarded[NGUARDED] = {
	Operation_op_id,      Operation_action,   Operation_provider,
	Operation_args_hash,  Operation_state,    Operation_sealed,
	Operation_generation, Operation_attempts, Operation_tries};

/* The row before and after; the same at an INSERT. Slots take a row apart once. */
typedef struct Passage
{
	AttrNumber      columns[NGUARDED];
	TupleTableSlot *before;
	TupleTableSlot *after;
} Passage;

static const char *
name_of(int which)
{
	return operation_table.columns[guarded[which]].name;
}

static struct varlena *
value_of(const Passage *p, TupleTableSlot *row, int which)
{
	bool  null;
	Datum value = slot_getattr(row, p->columns[which], &null);

	return null ? NULL : PG_DETOAST_DATUM_PACKED(value);
}

static bool
is_same(const Passage *p, int which)
{
	struct varlena *before = value_of(p, p->before, which);
	struct varlena *after = value_of(p, p->after, which);

	return before && after && VARSIZE_ANY_EXHDR(before) == VARSIZE_ANY_EXHDR(after) &&
		   memcmp(VARDATA_ANY(before), VARDATA_ANY(after), VARSIZE_ANY_EXHDR(before)) ==
			   0;
}

/* NULL for NULL. */
static char *
text_of(const Passage *p, TupleTableSlot *row, int which)
{
	struct varlena *value = value_of(p, row, which);

	return value ? text_to_cstring((text *) value) : NULL;
}

static void
check_identity(const Passage *p)
{
	for (int i = 0; i < NIDENTITY; i++)
	{
		if (!is_same(p, i))
			ereport(ERROR, (errcode(OPL_ERR_ARROW),
							errmsg("%s of operation \"%s\" cannot be changed", name_of(i),
								   text_of(p, p->before, OP_ID)),
							errdetail("An operation is one thing to do, for ever."),
							errhint("Submit another operation under another id.")));
	}
}

static void
check_arrow(const Passage *p, OplState from, OplState to)
{
	if (from == to || opl_state_may_become(from, to))
		return;
	ereport(ERROR, (errcode(OPL_ERR_ARROW),
					errmsg("operation \"%s\" cannot go from %s to %s",
						   text_of(p, p->before, OP_ID), opl_state_name(from),
						   opl_state_name(to)),
					errdetail("op_transitions() lists what can happen."),
					errhint("Evidence and the functions for people change states; an "
							"UPDATE by hand cannot make something un-happen.")));
}

static _Noreturn void
refuse_value(const Passage *p, int which)
{
	char *op_id = text_of(p, p->after, OP_ID);

	ereport(ERROR, (errcode(ERRCODE_CHECK_VIOLATION),
					errmsg("%s of operation \"%s\" has a value that it cannot have",
						   name_of(which), op_id ? op_id : "")));
}

/* A NULL meets the table's NOT NULL. */
static OplState
state_of(const Passage *p, TupleTableSlot *row)
{
	char    *name = text_of(p, row, STATE);
	OplState state = OPL_PENDING;

	if (name && !opl_state_parse(name, &state))
		refuse_value(p, STATE);
	return state;
}

static void
check_range(const Passage *p, int which, int least)
{
	bool  null;
	Datum value = slot_getattr(p->after, p->columns[which], &null);

	if (!null && DatumGetInt32(value) < least)
		refuse_value(p, which);
}

static void
check_values(const Passage *p)
{
	char   *sealed = text_of(p, p->after, SEALED);
	OplSeal seal;

	if (sealed && !opl_seal_parse(sealed, &seal))
		refuse_value(p, SEALED);
	check_range(p, GENERATION, 1);
	check_range(p, ATTEMPTS, 0);
	check_range(p, TRIES, 0);
}

Datum
_op_guard(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;
	bool         update;
	Passage      p;

	if (!CALLED_AS_TRIGGER(fcinfo) || !TRIGGER_FIRED_BEFORE(trigger->tg_event) ||
		!TRIGGER_FIRED_FOR_ROW(trigger->tg_event) ||
		TRIGGER_FIRED_BY_DELETE(trigger->tg_event))
		ereport(
			ERROR,
			(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
			 errmsg("_op_guard() is a trigger before INSERT or UPDATE for each row")));
	update = TRIGGER_FIRED_BY_UPDATE(trigger->tg_event);
	for (int i = 0; i < NGUARDED; i++)
		p.columns[i] =
			scanner_attribute(&operation_table, trigger->tg_relation, guarded[i]);
	p.before = trigger->tg_trigslot;
	p.after = update ? trigger->tg_newslot : trigger->tg_trigslot;
	if (update)
		check_identity(&p);
	if (!update || !is_same(&p, STATE))
		check_arrow(&p, state_of(&p, p.before), state_of(&p, p.after));
	check_values(&p);
	return PointerGetDatum(update ? trigger->tg_newtuple : trigger->tg_trigtuple);
}

/* ------------------------------------------------------------- the arrows */

/* The arrows of rules/state.c, one row each: what _op_guard() lets pass. */
Datum
op_transitions(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	for (int from = 0; from < OPL_STATE_COUNT; from++)
	{
		for (int to = 0; to < OPL_STATE_COUNT; to++)
		{
			Datum values[] = {CStringGetTextDatum(opl_state_name(from)),
							  CStringGetTextDatum(opl_state_name(to))};
			bool  nulls[] = {false, false};

			if (from != to && opl_state_may_become(from, to))
				tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
		}
	}
	return (Datum) 0;
}

/* ------------------------------------------------------ what the extension ships */

/* Profiles are in no dump: a restored database has those of its extension, and what
 * was written by hand would be gone there. Only the extension's own scripts write. */
Datum
_op_shipped(PG_FUNCTION_ARGS)
{
	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
						errmsg("_op_shipped() is a trigger")));
	if (!creating_extension)
		ereport(
			ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("table \"op_profile\" cannot be changed by hand"),
			 errdetail("It has what the extension ships, and is in no dump: after a "
					   "restore a profile of your own would be missing."),
			 errhint("What differs from a profile goes into the spec of the provider, "
					 "and actions of your own come with op_action_add().")));
	PG_RETURN_POINTER(NULL);
}
