/*
 * receipt.c - an operation as callers see it.
 *
 * A message says what is known and what to do; it never calls an unknown outcome
 * failed, and never asks for another try.
 */
#include "postgres.h"

#include "session/receipt.h"

#include "base/clock.h"
#include "access/htup_details.h"
#include "base/errors.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

static const char *const messages[OPL_STATE_COUNT] = {
	[OPL_HELD] = "recorded; waits for an approval",
	[OPL_PENDING] = "recorded, not executed yet; it is sent after the commit",
	[OPL_SUBMITTED] = "sent; the answer is awaited",
	[OPL_UNKNOWN] =
		"it may have happened; the provider is being asked. Do not do it again",
	[OPL_ACCEPTED] = "the provider has it, and has not finished. Do not do it again",
	[OPL_REVIEW] = "it may have happened; a person must find out. Do not do it again",
	[OPL_CONFIRMED] = "it happened, once",
	[OPL_FAILED] = "it did not happen, and will not",
	[OPL_CANCELLED] = "withdrawn before anything was sent",
};

static bool
was_rejected(const LedgerOperation *operation)
{
	return operation->reason && (strncmp(operation->reason, "rejected", 8) == 0 ||
								 strcmp(operation->reason, "refused") == 0);
}

/* A new operation for the same purpose is safe: nothing happened, nothing will. */
static bool
may_call_again(OplState state)
{
	return opl_state_ended(state) && strcmp(opl_state_effect(state), "none") == 0;
}

int
seconds_until(TimestampTz moment)
{
	int64 left = moment - clock_now();

	return left <= 0 ? 1 : (int) Min((left + 999999) / 1000000, PG_INT32_MAX);
}

const char *
receipt_message(const LedgerOperation *operation)
{
	bool tried = operation->op.state == OPL_PENDING && operation->op.attempts > 0;

	/* Said, not seen: whoever reads it should know. */
	if (operation->reason && strcmp(operation->reason, "resolved") == 0 &&
		opl_state_ended(operation->op.state))
		return operation->op.state == OPL_CONFIRMED
				   ? "a person says that it happened; op_timeline() shows who"
				   : "a person says that it did not happen, and it will not; "
					 "op_timeline() shows who";
	if (tried && operation->reason)
		return psprintf("could not be executed yet (%s); it is tried again",
						operation->reason);
	return messages[operation->op.state];
}

Datum
receipt_datum(FunctionCallInfo fcinfo, const LedgerOperation *operation, bool is_new,
			  TimestampTz due_at, const char *message)
{
	OplState  state = operation->op.state;
	TupleDesc descriptor;
	Datum     values[10];
	bool      nulls[10] = {0};
	bool      waits =
		!opl_state_ended(state) && due_at != OPL_NEVER && !TIMESTAMP_NOT_FINITE(due_at);

	if (get_call_result_type(fcinfo, NULL, &descriptor) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "op_receipt was expected as result type");
	values[0] = CStringGetTextDatum(operation->op_id);
	values[1] = CStringGetTextDatum(opl_state_name(state));
	values[2] = CStringGetTextDatum(opl_state_effect(state));
	values[3] = BoolGetDatum(is_new);
	nulls[4] = operation->external_id == NULL;
	if (operation->external_id)
		values[4] = CStringGetTextDatum(operation->external_id);
	values[5] =
		CStringGetTextDatum(opl_state_next_action(state, was_rejected(operation)));
	values[6] = BoolGetDatum(may_call_again(state));
	nulls[7] = !waits;
	if (waits)
		values[7] = Int32GetDatum(seconds_until(due_at));
	nulls[8] = operation->reason == NULL;
	if (operation->reason)
		values[8] = CStringGetTextDatum(operation->reason);
	values[9] = CStringGetTextDatum(message ? message : receipt_message(operation));
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), values, nulls));
}

char *
op_id_argument(FunctionCallInfo fcinfo)
{
	if (PG_ARGISNULL(0))
		ereport(ERROR, (errcode(OPL_ERR_OP_ID), errmsg("op id is NULL"),
						errhint("Pass the id that was given to op_submit().")));
	return text_to_cstring(PG_GETARG_TEXT_PP(0));
}

void
no_such_operation(const char *op_id)
{
	ereport(
		ERROR,
		(errcode(OPL_ERR_NOT_FOUND), errmsg("operation \"%s\" does not exist", op_id),
		 errhint("It was never submitted, or its transaction has not been committed.")));
	pg_unreachable();
}
