/*
 * wait.c - op_wait and op_execute: until an operation has ended, or needs a person.
 *
 * Each look takes a new snapshot. op_wait holds its caller's while it sleeps, so
 * it sleeps a minute at most; op_execute sleeps between transactions.
 */
#include "postgres.h"

#include "base/clock.h"
#include "base/compat.h"
#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "base/errors.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "funcapi.h"
#include "store/agenda.h"
#include "store/operation.h"
#include "store/spi.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "session/receipt.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"
#include "base/wake.h"

PG_FUNCTION_INFO_V1(op_wait);
PG_FUNCTION_INFO_V1(op_execute);

#define WAIT_MAX_MS (60 * 1000L)

/* Look again now and then even if nobody woke us. */
#define LOOK_MS 1000L

static long
timeout_ms(FunctionCallInfo fcinfo, int n, long most)
{
	Interval *interval;
	double    ms;

	if (PG_ARGISNULL(n))
		return Min(10 * 1000L, most);
	interval = PG_GETARG_INTERVAL_P(n);
	ms = interval->time / 1000.0 + (interval->day + interval->month * 30.0) * 86400000.0;
	if (ms < 0)
		return 0;
	return ms > most ? most : (long) ms;
}

static bool
worth_waiting(OplState state)
{
	return !opl_state_ended(state) && state != OPL_REVIEW;
}

/* What the caller itself has not committed, nobody sends. */
static void
check_can_see(const LedgerOperation *operation)
{
	if (IsolationUsesXactSnapshot())
		ereport(ERROR, (errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
						errmsg("op_wait() cannot see changes in a %s transaction",
							   XactIsoLevel == XACT_SERIALIZABLE ? "SERIALIZABLE"
																 : "REPEATABLE READ"),
						errhint("Commit first, then wait in a transaction of its own.")));
	if (operation && TransactionIdIsCurrentTransactionId(operation->xmin))
		ereport(ERROR, (errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
						errmsg("operation \"%s\" is not committed yet", operation->op_id),
						errdetail("It is sent after this transaction commits."),
						errhint("Commit first, then call op_wait().")));
}

static LedgerOperation *
look(Oid schema, const char *op_id, TimestampTz *due_at)
{
	Ledger           ledger = ledger_open(schema);
	LedgerOperation *operation = operation_read(&ledger, op_id);

	*due_at = OPL_NEVER;
	if (operation && !opl_state_ended(operation->op.state))
		*due_at = agenda_due_at(&ledger, op_id);
	return operation;
}

static long
left_ms(int64 until)
{
	int64 now = clock_steady();

	return now >= until ? 0 : (long) ((until - now) / 1000) + 1;
}

Datum
op_wait(PG_FUNCTION_ARGS)
{
	char *op_id = PG_ARGISNULL(0) ? "" : text_to_cstring(PG_GETARG_TEXT_PP(0));
	Oid   schema = get_func_namespace(fcinfo->flinfo->fn_oid);
	int64 until = clock_steady() + timeout_ms(fcinfo, 1, WAIT_MAX_MS) * INT64CONST(1000);
	MemoryContext    outer = CurrentMemoryContext;
	MemoryContext    each = AllocSetContextCreate(outer, "op_wait", ALLOCSET_SMALL_SIZES);
	LedgerOperation *operation;
	TimestampTz      due_at;

	check_can_see(NULL);
	for (;;)
	{
		wake_wait_begin();
		MemoryContextReset(each);
		MemoryContextSwitchTo(each);
		operation = look(schema, op_id, &due_at);
		MemoryContextSwitchTo(outer);
		if (!operation)
			no_such_operation(op_id);
		check_can_see(operation);
		if (!worth_waiting(operation->op.state) || left_ms(until) == 0)
			break;
		wake_wait_sleep(Min(left_ms(until), LOOK_MS));
	}
	wake_wait_finish();
	PG_RETURN_DATUM(receipt_datum(fcinfo, operation, false, due_at, NULL));
}

/* -------------------------------------------------------------- op_execute */

static void
refuse_in_block(FunctionCallInfo fcinfo)
{
	bool atomic = !fcinfo->context || !IsA(fcinfo->context, CallContext) ||
				  ((CallContext *) fcinfo->context)->atomic;

	if (atomic)
		ereport(ERROR, (errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
						errmsg("op_execute() cannot run inside a transaction block"),
						errdetail("It submits, commits and waits; nothing was done."),
						errhint("CALL it by itself with autocommit on; inside a "
								"transaction use op_submit(), "
								"and op_wait() after the commit.")));
}

/* A receipt says whether it is new; later looks at it must not lose that. */
static Datum
with_is_new(Datum receipt, bool is_new)
{
	HeapTupleHeader header = DatumGetHeapTupleHeader(receipt);
	TupleDesc       descriptor = lookup_rowtype_tupdesc(HeapTupleHeaderGetTypeId(header),
														HeapTupleHeaderGetTypMod(header));
	HeapTupleData   tuple = {.t_len = HeapTupleHeaderGetDatumLength(header),
							 .t_data = header};
	Datum          *values = palloc(sizeof(Datum) * descriptor->natts);
	bool           *nulls = palloc(sizeof(bool) * descriptor->natts);
	Datum           changed;

	heap_deform_tuple(&tuple, descriptor, values, nulls);
	values[3] = BoolGetDatum(is_new);
	changed = HeapTupleGetDatum(heap_form_tuple(descriptor, values, nulls));
	ReleaseTupleDesc(descriptor);
	return changed;
}

static OplState
state_in(Datum receipt)
{
	bool     null;
	Datum    name = GetAttributeByName(DatumGetHeapTupleHeader(receipt), "state", &null);
	OplState state;

	if (null || !opl_state_parse(text_to_cstring(DatumGetTextPP(name)), &state))
		elog(ERROR, "a receipt without a state");
	return state;
}

static bool
is_new_in(Datum receipt)
{
	bool  null;
	Datum is_new = GetAttributeByName(DatumGetHeapTupleHeader(receipt), "is_new", &null);

	return !null && DatumGetBool(is_new);
}

/* The procedure's only INOUT column. */
static Datum
result_row(FunctionCallInfo fcinfo, Datum receipt)
{
	TupleDesc descriptor;
	bool      null = false;

	if (get_call_result_type(fcinfo, NULL, &descriptor) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "a row was expected as result type");
	return HeapTupleGetDatum(
		heap_form_tuple(BlessTupleDesc(descriptor), &receipt, &null));
}

/* Whoever calls the procedure needs the rights for op_submit() and op_status(), and no
 * more. */
static Datum
call_submit(FunctionCallInfo fcinfo, const Ledger *ledger)
{
	static const SpiStatement submit = {
		"SELECT @.op_submit($1, $2, $3)", 3, {TEXTOID, TEXTOID, JSONBOID}};
	Datum values[3];
	char  nulls[3];

	for (int i = 0; i < lengthof(values); i++)
	{
		nulls[i] = PG_ARGISNULL(i) ? 'n' : ' ';
		values[i] =
			PG_ARGISNULL(i) ? (Datum) 0 : PointerGetDatum(PG_GETARG_VARLENA_PP(i));
	}
	return spi_call(ledger, &submit, values, nulls);
}

static Datum
call_status(FunctionCallInfo fcinfo, const Ledger *ledger)
{
	static const SpiStatement status = {"SELECT @.op_status($1)", 1, {TEXTOID}};
	Datum                     values[] = {PG_GETARG_DATUM(0)};

	return spi_call(ledger, &status, values, NULL);
}

Datum
op_execute(PG_FUNCTION_ARGS)
{
	Ledger ledger = ledger_open(get_func_namespace(fcinfo->flinfo->fn_oid));
	int64  until =
		clock_steady() + timeout_ms(fcinfo, 3, LONG_MAX / 2000) * INT64CONST(1000);
	Datum receipt;
	bool  is_new;

	refuse_in_block(fcinfo);
	spi_begin_nonatomic();
	receipt = call_submit(fcinfo, &ledger);
	is_new = is_new_in(receipt);
	spi_commit();
	for (;;)
	{
		wake_wait_begin();
		receipt = call_status(fcinfo, &ledger);
		spi_commit();
		if (!worth_waiting(state_in(receipt)) || left_ms(until) == 0)
			break;
		wake_wait_sleep(Min(left_ms(until), LOOK_MS));
	}
	wake_wait_finish();
	spi_end_nonatomic();
	PG_RETURN_DATUM(result_row(fcinfo, with_is_new(receipt, is_new)));
}
