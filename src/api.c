/*
 * api.c - thin wrappers that show the floors below to SQL, and the guard trigger.
 */
#include "postgres.h"

#include "compat.h"
#include "access/htup_details.h"
#include "access/xact.h"
#include "commands/trigger.h"
#include "errors.h"
#include "fmgr.h"
#include "funcapi.h"
#include "home.h"
#include "ledger.h"
#include "miscadmin.h"
#include "receipt.h"
#include "state.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"
#include "wake.h"

PG_FUNCTION_INFO_V1(op_status);
PG_FUNCTION_INFO_V1(op_transitions);
PG_FUNCTION_INFO_V1(_op_guard);
PG_FUNCTION_INFO_V1(_op_worker);
PG_FUNCTION_INFO_V1(_op_home);
PG_FUNCTION_INFO_V1(_op_home_fault);
PG_FUNCTION_INFO_V1(_op_created);
PG_FUNCTION_INFO_V1(_op_wake);

Datum
op_status(PG_FUNCTION_ARGS)
{
	char            *op_id = op_id_argument(fcinfo);
	LedgerOperation *operation;
	TimestampTz      due_at = OPL_NEVER;

	ledger_begin(get_func_namespace(fcinfo->flinfo->fn_oid));
	operation = ledger_read(op_id, true);
	if (!operation)
		no_such_operation(op_id);
	if (!opl_state_ended(operation->op.state))
		due_at = ledger_due_at(op_id, true);
	ledger_end();
	PG_RETURN_DATUM(receipt_datum(fcinfo, operation, false, due_at, NULL));
}

/* ------------------------------------------------------------------- states */

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

/* Columns of op_operation that the guard looks at; the first are its identity. */
static const char *const guarded[] = {"op_id", "action", "provider", "args_hash",
									  "state"};
#define NGUARDED lengthof(guarded)
#define STATE (NGUARDED - 1)

static int
column_number(TupleDesc descriptor, const char *name)
{
	for (int i = 0; i < descriptor->natts; i++)
	{
		if (strcmp(NameStr(TupleDescAttr(descriptor, i)->attname), name) == 0)
			return i + 1;
	}
	elog(ERROR, "op_operation has no column \"%s\"", name);
}

/* Looked up once: this runs for every change of every operation. */
static const int *
guarded_columns(TriggerData *trigger)
{
	static Oid relation = InvalidOid;
	static int columns[NGUARDED];

	if (RelationGetRelid(trigger->tg_relation) != relation)
	{
		for (int i = 0; i < NGUARDED; i++)
			columns[i] =
				column_number(RelationGetDescr(trigger->tg_relation), guarded[i]);
		relation = RelationGetRelid(trigger->tg_relation);
	}
	return columns;
}

static struct varlena *
column_value(TriggerData *trigger, HeapTuple tuple, int column)
{
	bool  null;
	Datum value =
		heap_getattr(tuple, column, RelationGetDescr(trigger->tg_relation), &null);

	return null ? NULL : PG_DETOAST_DATUM_PACKED(value);
}

static bool
same_value(TriggerData *trigger, int column)
{
	struct varlena *before = column_value(trigger, trigger->tg_trigtuple, column);
	struct varlena *after = column_value(trigger, trigger->tg_newtuple, column);

	return before && after && VARSIZE_ANY_EXHDR(before) == VARSIZE_ANY_EXHDR(after) &&
		   memcmp(VARDATA_ANY(before), VARDATA_ANY(after), VARSIZE_ANY_EXHDR(before)) ==
			   0;
}

static const char *
column_text(TriggerData *trigger, HeapTuple tuple, int column)
{
	struct varlena *value = column_value(trigger, tuple, column);

	return value ? text_to_cstring((text *) value) : "";
}

static void
refuse_change(TriggerData *trigger, const char *column, int id)
{
	ereport(ERROR, (errcode(OPL_ERR_ARROW),
					errmsg("%s of operation \"%s\" cannot be changed", column,
						   column_text(trigger, trigger->tg_trigtuple, id)),
					errdetail("An operation is one thing to do, for ever."),
					errhint("Submit another operation under another id.")));
}

static void
check_arrow(TriggerData *trigger, int state, int id)
{
	OplState from;
	OplState to;

	/* A name that is none meets the table's CHECK. */
	if (!opl_state_parse(column_text(trigger, trigger->tg_trigtuple, state), &from) ||
		!opl_state_parse(column_text(trigger, trigger->tg_newtuple, state), &to) ||
		opl_state_may_become(from, to))
		return;
	ereport(ERROR, (errcode(OPL_ERR_ARROW),
					errmsg("operation \"%s\" cannot go from %s to %s",
						   column_text(trigger, trigger->tg_trigtuple, id),
						   opl_state_name(from), opl_state_name(to)),
					errdetail("op_transitions() lists what can happen."),
					errhint("Evidence and the functions for people change states; an "
							"UPDATE by hand cannot make something un-happen.")));
}

/* Every UPDATE passes here, the worker's and those written by hand. */
Datum
_op_guard(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;
	const int   *columns;

	if (!CALLED_AS_TRIGGER(fcinfo) || !TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) ||
		!TRIGGER_FIRED_FOR_ROW(trigger->tg_event))
		ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
						errmsg("_op_guard() is a trigger before UPDATE for each row")));
	columns = guarded_columns(trigger);
	for (int i = 0; i < STATE; i++)
	{
		if (!same_value(trigger, columns[i]))
			refuse_change(trigger, guarded[i], columns[0]);
	}
	if (!same_value(trigger, columns[STATE]))
		check_arrow(trigger, columns[STATE], columns[0]);
	return PointerGetDatum(trigger->tg_newtuple);
}

/* ----------------------------------------------------------- worker and home */

static const char *
state_word(const SlotReport *report)
{
	switch (report->state)
	{
		case SLOT_RUNNING:
			return "running";
		case SLOT_STARTING:
			return "starting";
		default:
			return "absent";
	}
}

static TupleDesc
result_row(FunctionCallInfo fcinfo)
{
	TupleDesc descriptor;

	if (get_call_result_type(fcinfo, NULL, &descriptor) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "a row was expected as result type");
	return BlessTupleDesc(descriptor);
}

Datum
_op_worker(PG_FUNCTION_ARGS)
{
	SlotReport r = wake_report(MyDatabaseId);
	bool       none = r.state == SLOT_FREE;
	Datum      values[] = {BoolGetDatum(wake_available()),
						   CStringGetTextDatum(state_word(&r)),
						   Int32GetDatum(r.pid),
						   Int64GetDatum(r.epoch),
						   TimestampTzGetDatum(r.started_at),
						   TimestampTzGetDatum(r.turn_at),
						   Int32GetDatum(r.in_flight),
						   TimestampTzGetDatum(r.held_since),
						   Int64GetDatum(r.failed_turns),
						   TimestampTzGetDatum(r.failed_at),
						   CStringGetTextDatum(r.failure)};
	bool       nulls[] = {false,
						  false,
						  none || r.pid == 0,
						  none || r.epoch == 0,
						  none || r.started_at == 0,
						  none || r.turn_at == 0,
						  none,
						  none || r.held_since == 0,
						  none,
						  none || r.failed_at == 0,
						  none || r.failed_at == 0};

	PG_RETURN_DATUM(
		HeapTupleGetDatum(heap_form_tuple(result_row(fcinfo), values, nulls)));
}

Datum
_op_home(PG_FUNCTION_ARGS)
{
	Oid     schema;
	HomeRow here = home_here(home_extension(&schema));
	Datum   values[] = {Int64GetDatum((int64) here.system_identifier),
						ObjectIdGetDatum(here.database), ObjectIdGetDatum(here.extension),
						Int32GetDatum((int32) here.timeline),
						Int64GetDatum(here.control_inode)};
	bool    nulls[lengthof(values)] = {0};

	PG_RETURN_DATUM(
		HeapTupleGetDatum(heap_form_tuple(result_row(fcinfo), values, nulls)));
}

Datum
_op_home_fault(PG_FUNCTION_ARGS)
{
	Oid         schema;
	Oid         extension = home_extension(&schema);
	HomeRow    *homes;
	HomeRow     here;
	const char *fault;
	int         n;

	if (RecoveryInProgress())
		PG_RETURN_NULL(); /* a standby sends nothing anyway */
	ledger_begin(schema);
	homes = ledger_homes(&n);
	ledger_end();
	here = home_here(extension);
	fault = home_reason(home_fault(homes, n, &here));
	if (!fault)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(fault));
}

Datum
_op_created(PG_FUNCTION_ARGS)
{
	wake_launcher_at_commit();
	PG_RETURN_VOID();
}

Datum
_op_wake(PG_FUNCTION_ARGS)
{
	wake_worker_at_commit();
	PG_RETURN_VOID();
}
