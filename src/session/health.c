/*
 * health.c - what op_health() asks that is in no table: who works for this database,
 * and whether this copy of the ledger may send.
 *
 * _op_home() is also what CREATE EXTENSION writes into op_control.
 */
#include "postgres.h"

#include "base/clock.h"
#include "base/compat.h"
#include "access/htup_details.h"
#include "access/xlog.h"
#include "fmgr.h"
#include "funcapi.h"
#include "store/home.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"
#include "base/wake.h"

PG_FUNCTION_INFO_V1(_op_worker);
PG_FUNCTION_INFO_V1(_op_clock);
PG_FUNCTION_INFO_V1(_op_home);
PG_FUNCTION_INFO_V1(_op_home_fault);

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

static void
put_worker(ReturnSetInfo *result, const SlotReport *r)
{
	Datum values[] = {BoolGetDatum(wake_available()),
					  Int32GetDatum(r->number),
					  CStringGetTextDatum(state_word(r)),
					  Int32GetDatum(r->pid),
					  Int64GetDatum(r->epoch),
					  TimestampTzGetDatum(clock_moment(r->started_at)),
					  TimestampTzGetDatum(clock_moment(r->turn_at)),
					  Int32GetDatum(r->in_flight),
					  TimestampTzGetDatum(clock_moment(r->held_since)),
					  Int64GetDatum(r->failed_turns),
					  TimestampTzGetDatum(clock_moment(r->failed_at)),
					  CStringGetTextDatum(r->failure)};
	bool  none = r->state == SLOT_FREE;
	bool  nulls[] = {false,
					 none,
					 false,
					 r->pid == 0,
					 r->epoch == 0,
					 r->started_at == 0,
					 r->turn_at == 0,
					 none,
					 r->held_since == 0,
					 none,
					 r->failed_at == 0,
					 r->failed_at == 0};

	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/* One row per worker of this database; one that says "absent" when there is none. */
Datum
_op_worker(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	SlotReport     none = {.state = SLOT_FREE};
	int            rows = 0;

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; wake_available() && i < wake_slot_count(); i++)
	{
		SlotReport slot = wake_slot(i);

		if (slot.database != MyDatabaseId ||
			(slot.state != SLOT_RUNNING && slot.state != SLOT_STARTING))
			continue;
		put_worker(result, &slot);
		rows++;
	}
	if (rows == 0)
		put_worker(result, &none);
	return (Datum) 0;
}

Datum
_op_clock(PG_FUNCTION_ARGS)
{
	ClockReading c = clock_read();
	Interval    *step = palloc0(sizeof(Interval));
	bool         none = c.steps == 0;
	Datum        values[] = {TimestampTzGetDatum(c.now),
							 TimestampTzGetDatum(c.steady_since),
							 BoolGetDatum(c.proven),
							 Int64GetDatum(c.steps),
							 TimestampTzGetDatum(c.stepped_at),
							 IntervalPGetDatum(step)};
	bool         nulls[] = {false, false, false, false, none, none};

	step->time = c.last_step;
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
	Ledger      ledger;
	const char *fault;

	if (RecoveryInProgress())
		PG_RETURN_NULL(); /* a standby sends nothing anyway */
	ledger = ledger_open(schema);
	fault = home_reason(home_fault(&ledger, extension));
	if (!fault)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(fault));
}
