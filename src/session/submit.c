/*
 * submit.c - op_submit: an operation is recorded in the caller's transaction.
 *
 * What is known is answered, without rendering a request. What is not is inserted:
 * the unique key decides who was first, and a second statement sees whoever it
 * was. What is sent is rendered and frozen here, so that every send of a
 * generation is the same bytes under the same key.
 */
#include "postgres.h"

#include "base/clock.h"
#include "base/compat.h"
#include "access/xact.h"
#include "store/actions.h"
#include "store/agenda.h"
#include "base/errors.h"
#include "store/event.h"
#include "fmgr.h"
#include "spec/freeze.h"
#include "base/guc.h"
#include "store/operation.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "spec/profile.h"
#include "session/receipt.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"
#include "base/wake.h"

PG_FUNCTION_INFO_V1(op_submit);

/* Positions of op_submit's arguments. */
enum
{
	ARG_OP_ID,
	ARG_ACTION,
	ARG_ARGS,
	ARG_RUN_ID,
	ARG_STEP,
	ARG_TOOL_CALL_ID,
	ARG_TRACEPARENT,
	ARG_DEDUPE_KEY,
	ARG_LANE,
	ARG_NOT_BEFORE,
	ARG_NOT_AFTER,
	ARG_COST
};

static char *
text_arg(FunctionCallInfo fcinfo, int n)
{
	return PG_ARGISNULL(n) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(n));
}

static Jsonb *
args_or_empty(FunctionCallInfo fcinfo)
{
	if (PG_ARGISNULL(ARG_ARGS))
		return DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum("{}")));
	return PG_GETARG_JSONB_P(ARG_ARGS);
}

static void
check_names(const char *op_id, const char *action)
{
	const char *fault = op_id ? canon_op_id_fault(op_id) : "is NULL";

	if (fault)
		ereport(ERROR,
				(errcode(OPL_ERR_OP_ID), errmsg("op id %s", fault),
				 errhint("Name what is done: 1 to 200 printable characters that do not "
						 "end in \"~\" "
						 "and digits. op_key('refund', '1043', 'li_2') builds one.")));
	if (!action)
		ereport(
			ERROR,
			(errcode(OPL_ERR_NO_ACTION),
			 errmsg("the action of operation \"%s\" is NULL", op_id),
			 errhint("Name an action, such as 'stripe.refund'; op_action lists them.")));
}

static void
check_times(const LedgerBirth *birth)
{
	if (birth->no_not_after)
		return;
	if (!birth->no_not_before &&
		DatumGetTimestampTz(birth->not_after) <= DatumGetTimestampTz(birth->not_before))
		ereport(ERROR,
				(errcode(OPL_ERR_ARGUMENT),
				 errmsg("not_after of operation \"%s\" is not later than its not_before",
						birth->op_id),
				 errhint("Leave one of them out, or move them apart.")));
	if (DatumGetTimestampTz(birth->not_after) <= clock_now())
		ereport(ERROR, (errcode(OPL_ERR_ARGUMENT),
						errmsg("not_after of operation \"%s\" has passed", birth->op_id),
						errhint("Nothing was recorded; pass a moment in the future.")));
}

static void
hash_args(Jsonb *args, uint8 *digest)
{
	StringInfoData canonical;

	initStringInfo(&canonical);
	canon_json(&canonical, args);
	canon_sha256(canonical.data, canonical.len, digest);
}

/* All that the caller said, into the row that is to be. */
static void
read_arguments(FunctionCallInfo fcinfo, LedgerBirth *birth)
{
	birth->op_id = text_arg(fcinfo, ARG_OP_ID);
	birth->action = text_arg(fcinfo, ARG_ACTION);
	check_names(birth->op_id, birth->action);
	birth->args = args_or_empty(fcinfo);
	birth->run_id = text_arg(fcinfo, ARG_RUN_ID);
	birth->step = text_arg(fcinfo, ARG_STEP);
	birth->tool_call_id = text_arg(fcinfo, ARG_TOOL_CALL_ID);
	birth->traceparent = text_arg(fcinfo, ARG_TRACEPARENT);
	birth->dedupe_key = text_arg(fcinfo, ARG_DEDUPE_KEY);
	birth->lane = text_arg(fcinfo, ARG_LANE);
	birth->no_not_before = PG_ARGISNULL(ARG_NOT_BEFORE);
	birth->not_before =
		birth->no_not_before ? (Datum) 0 : PG_GETARG_DATUM(ARG_NOT_BEFORE);
	birth->no_not_after = PG_ARGISNULL(ARG_NOT_AFTER);
	birth->not_after = birth->no_not_after ? (Datum) 0 : PG_GETARG_DATUM(ARG_NOT_AFTER);
	birth->no_cost = PG_ARGISNULL(ARG_COST);
	birth->cost = birth->no_cost ? (Datum) 0 : PG_GETARG_DATUM(ARG_COST);
	if (birth->lane)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("lane of operation \"%s\" cannot be kept: there are no lanes yet",
						birth->op_id),
				 errhint("Submit the next operation when op_wait() says that this one "
						 "has ended.")));
	if (birth->dedupe_key)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("dedupe_key of operation \"%s\" cannot be kept: nothing but the "
						"op id tells twins yet",
						birth->op_id),
				 errhint("Compute the op id from what is done, with op_key(): the same "
						 "id is done once.")));
	check_times(birth);
	birth->submitted_by = GetUserNameFromId(GetOuterUserId(), false);
}

/* Everything that can be wrong with the arguments is found here or in freeze(),
 * before a row is written. */
static void
check(LedgerBirth *birth, const Action *action)
{
	uint8 *digest = palloc(CANON_DIGEST_LEN);

	profile_check_args(action->spec, action->name, birth->args);
	hash_args(birth->args, digest);
	birth->args_hash = digest;
	birth->provider = action->provider;
}

/* The bytes are fixed. */
static void
freeze(LedgerBirth *birth, const void *how)
{
	const Action *action = how;
	OplMoment     not_after =
        birth->no_not_after ? OPL_NEVER : DatumGetTimestampTz(birth->not_after);
	OplMoment due_at =
		birth->no_not_before ? clock_now() : DatumGetTimestampTz(birth->not_before);
	Frozen frozen = {0};

	birth->base_url = action->spec->base_url;
	birth->name_space = action->spec->name_space;
	profile_freeze(action->spec, birth->name_space, birth->op_id, 1, birth->args,
				   birth->traceparent, &frozen);
	birth->key = frozen.key;
	birth->method = frozen.method;
	birth->url = frozen.url;
	birth->nheaders = frozen.nheaders;
	birth->headers = frozen.headers;
	birth->body = frozen.body;
	birth->body_len = frozen.body_len;
	birth->born =
		opl_born(action->spec->approval, action->spec->lookup_first, not_after, due_at);
	if (birth->born.after.state == OPL_HELD)
		birth->digest = profile_digest(&frozen);
}

/* Once per session: what is recorded now is not sent now. */
static void
warn_without_worker(const char *op_id)
{
	static bool warned = false;
	SlotState   state;

	if (warned)
		return;
	state = wake_report(MyDatabaseId).state;
	if (wake_available() && (state == SLOT_RUNNING || state == SLOT_STARTING))
		return;
	warned = true;
	ereport(
		WARNING,
		(errmsg("operation \"%s\" is recorded, but no worker runs for this database",
				op_id),
		 errdetail("It is sent as soon as there is one."),
		 wake_available()
			 ? errhint("SELECT * FROM op_health() says why.")
			 : errhint(
				   "Add op_ledger to shared_preload_libraries and restart the server.")));
}

static LedgerOperation *
newborn(const LedgerBirth *birth)
{
	LedgerOperation *operation = palloc0(sizeof(LedgerOperation));

	operation->op_id = (char *) birth->op_id;
	operation->op = birth->born.after;
	return operation;
}

/* The id names what is done. If it names something else, nothing is done. */
static void
check_same(const LedgerBirth *birth, const LedgerOperation *first)
{
	bool same_args =
		VARSIZE_ANY_EXHDR(first->args_hash) == CANON_DIGEST_LEN &&
		memcmp(VARDATA_ANY(first->args_hash), birth->args_hash, CANON_DIGEST_LEN) == 0;

	if (same_args && strcmp(first->action, birth->action) == 0)
		return;
	ereport(
		ERROR,
		(errcode(OPL_ERR_OTHER_ARGS),
		 errmsg("operation \"%s\" exists with %s", birth->op_id,
				same_args ? "another action" : "other arguments"),
		 errdetail(
			 "It was submitted at %s for action \"%s\" and is %s; nothing was changed.",
			 timestamptz_to_str(first->created_at), first->action,
			 opl_state_name(first->op.state)),
		 errhint("An op id names one thing to do. Use another id for another thing; "
				 "op_status() tells what became of this one.")));
}

/* Somebody asks again about what nobody knows: look sooner. */
static void
nudge(const Ledger *ledger, const LedgerOperation *operation)
{
	if (operation->op.state != OPL_UNKNOWN && operation->op.state != OPL_REVIEW)
		return;
	agenda_nudge(ledger, operation->op_id);
	wake_nudge_at_commit();
}

/* An approval is for what is recorded here, and for nothing else. What cannot be
 * sent wakes nobody: op_provider_resume() does. */
static void
hold_or_go(const Ledger *ledger, const LedgerBirth *birth, const Action *action)
{
	if (birth->digest)
		event_insert(ledger, birth->op_id, birth->submitted_by, "hold", birth->digest);
	else if (!action->paused)
		wake_worker_at_commit();
}

/* Of whoever was faster; but our snapshot may be older, or a trigger said no. */
static LedgerOperation *
read_first(const Ledger *ledger, const char *op_id)
{
	LedgerOperation *operation = operation_read(ledger, op_id);

	if (operation)
		return operation;
	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not serialize access due to concurrent update"),
				 errdetail("Operation \"%s\" was submitted after this transaction began.",
						   op_id)));
	ereport(ERROR,
			(errcode(ERRCODE_TRIGGERED_ACTION_EXCEPTION),
			 errmsg("operation \"%s\" was not recorded: a trigger on op_operation "
					"refused the row",
					op_id),
			 errhint("op_ledger has no such trigger; \\d op_operation lists them.")));
}

Datum
op_submit(PG_FUNCTION_ARGS)
{
	Ledger           ledger = ledger_open(get_func_namespace(fcinfo->flinfo->fn_oid));
	LedgerBirth      birth = {0};
	LedgerOperation *operation;
	Action          *action;
	TimestampTz      due_at;
	bool             is_new;

	PreventCommandIfReadOnly("op_submit()"); /* also where it would only answer */
	read_arguments(fcinfo, &birth);
	action = action_get(&ledger, birth.action);
	check(&birth, action);
	is_new = operation_insert(&ledger, &birth, freeze, action, &operation);
	if (is_new)
	{
		hold_or_go(&ledger, &birth, action);
		due_at = birth.born.due_at;
	}
	else
	{
		if (!operation)
			operation = read_first(&ledger, birth.op_id);
		check_same(&birth, operation);
		nudge(&ledger, operation);
		due_at = opl_state_ended(operation->op.state)
					 ? OPL_NEVER
					 : agenda_due_at(&ledger, birth.op_id);
	}
	if (is_new)
	{
		operation = newborn(&birth);
		warn_without_worker(birth.op_id);
	}
	PG_RETURN_DATUM(receipt_datum(fcinfo, operation, is_new, due_at, NULL));
}
