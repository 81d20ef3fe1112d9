/*
 * client.c - op_claim: a client sends by itself, once it holds a ticket.
 *
 * The same rule as in dispatch.c: mark `submitted`, commit, send. The claim is
 * the caller's transaction, and its commit is synchronous whatever was set; what
 * is sent before the commit is not covered. The lease is how long the client may
 * take; when it runs out without a report the worker finds the row in the agenda,
 * and the outcome is unknown. Nobody else is ever given a free ticket meanwhile.
 */
#include "postgres.h"

#include "base/compat.h"
#include "access/htup_details.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "store/actions.h"
#include "store/agenda.h"
#include "base/canon.h"
#include "base/datum.h"
#include "base/errors.h"
#include "store/config.h"
#include "store/event.h"
#include "store/finding.h"
#include "fmgr.h"
#include "funcapi.h"
#include "store/home.h"
#include "store/lease.h"
#include "store/operation.h"
#include "miscadmin.h"
#include "session/receipt.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"
#include "base/wake.h"

PG_FUNCTION_INFO_V1(op_claim);

typedef enum Answer
{
	ANSWER_SEND,
	ANSWER_LOOKUP,
	ANSWER_WAIT,
	ANSWER_DONE,
	ANSWER_REVIEW
} Answer;

static const struct
{
	const char *word;
	const char *message;
} answers[] = {
	[ANSWER_SEND] = {"send", "yours: commit, then send exactly this before lease_until, "
							 "then op_report()"},
	[ANSWER_LOOKUP] = {"lookup", "it may have happened; the provider is being asked. Do "
								 "not send"},
	[ANSWER_WAIT] = {"wait", "not now: it is somebody else's, or it is too early. Do not "
							 "send; ask again later"},
	[ANSWER_DONE] = {"done", "it has ended. Do not send"},
	[ANSWER_REVIEW] = {"review", "it may have happened; a person must find out. Do not "
								 "send"},
};

/* All that a claim is about. */
typedef struct Claim
{
	Ledger           ledger;
	LedgerOperation *operation;
	LedgerRequest   *request;
	Action          *action;
	OplStep          step;
	TimestampTz      due_at;
	OplClock         clock;
	int64            lease;
} Claim;

/* ----------------------------------------------------------- what is refused */

static int64
lease_argument(FunctionCallInfo fcinfo)
{
	Interval *interval;
	double    lease;

	if (PG_ARGISNULL(1))
		return LEASE_DEFAULT;
	interval = PG_GETARG_INTERVAL_P(1);
	lease = interval->time +
			(interval->day + interval->month * (double) DAYS_PER_MONTH) * USECS_PER_DAY;
	if (lease < LEASE_MIN || lease > LEASE_MAX)
		ereport(
			ERROR,
			(errcode(OPL_ERR_ARGUMENT), errmsg("the lease is not between 1 s and 1 h"),
			 errhint("It is the time from the claim to the report: a little more than "
					 "the timeout of your client.")));
	return (int64) lease;
}

static void
refuse_away_from_home(const Ledger *ledger)
{
	Oid       schema;
	HomeFault fault = home_fault(ledger, home_extension(&schema));

	if (fault != HOME_OK)
		ereport(ERROR, (errcode(OPL_ERR_HOME),
						errmsg("nothing may be sent from this copy of the ledger"),
						errdetail("Because %s.", home_reason(fault)),
						errhint("SELECT * FROM op_health() says what to do.")));
}

static void
refuse_of_worker(const Claim *c)
{
	if (c->action->spec->executor != EXECUTOR_CLIENT)
		ereport(ERROR,
				(errcode(OPL_ERR_ARGUMENT),
				 errmsg("operation \"%s\" is sent by the worker", c->operation->op_id),
				 errdetail("The executor of action \"%s\" is not \"client\".",
						   c->action->name),
				 errhint("op_wait() waits for its outcome.")));
}

/* -------------------------------------------------------------- what is said */

/* What is paused or gone is not sent to. */
static bool
may_send_to(const Ledger *ledger, const char *name)
{
	const LedgerProvider *provider = config_provider(ledger, name);

	return provider != NULL && !provider->paused;
}

static Answer
answer_now(const Claim *c)
{
	switch (c->operation->op.state)
	{
		case OPL_CONFIRMED:
		case OPL_FAILED:
		case OPL_CANCELLED:
			return ANSWER_DONE;
		case OPL_REVIEW:
			return ANSWER_REVIEW;
		case OPL_PENDING:
		case OPL_UNKNOWN:
			break;
		default: /* held, submitted, accepted */
			return ANSWER_WAIT;
	}
	if (c->step == OPL_STEP_LOOKUP)
		return ANSWER_LOOKUP;
	if (c->step == OPL_STEP_NONE || c->request == NULL || c->due_at > c->clock.now ||
		!may_send_to(&c->ledger, c->operation->provider))
		return ANSWER_WAIT;
	return ANSWER_SEND;
}

/* ------------------------------------------------------------- what is stored */

/* What is sent must not be forgotten by a crash after the commit. */
static void
commit_synchronously(void)
{
	if (synchronous_commit < SYNCHRONOUS_COMMIT_LOCAL_FLUSH)
		(void) set_config_option("synchronous_commit", "local", PGC_USERSET,
								 PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0, false);
}

static void
store(Claim *c, const OplDecision *decision)
{
	LedgerOperation *operation = c->operation;
	LedgerChange     change = {.op_id = operation->op_id,
							   .row = operation->row,
							   .provider = operation->provider,
							   .decision = *decision,
							   .reason =
                               decision->reason ? decision->reason : operation->reason};

	operation_save_one(&c->ledger, &change, c->clock.now);
	agenda_remove(&c->ledger, &operation->op_id, 1);
	if (decision->step != OPL_STEP_NONE)
		agenda_plan(&c->ledger, &change, 1, 0);
	operation->op = decision->after;
	operation->reason = (char *) change.reason;
	c->step = decision->step;
	c->due_at = decision->due_at;
	wake_worker_at_commit();
	wake_waiters_at_commit();
}

static void
record_claim(const Claim *c)
{
	const char *op_id = c->operation->op_id;

	operation_lease(&c->ledger, op_id, c->due_at);
	event_insert(&c->ledger, op_id, GetUserNameFromId(GetOuterUserId(), false), "claim",
				 psprintf("attempt %d, until %s", c->operation->op.attempts,
						  timestamptz_to_str(c->due_at)));
	commit_synchronously();
}

/* The end of a lease is looked after like a lookup: that goes on while sends to
 * the provider are paused. */
static Answer
take(Claim *c)
{
	OplPromises promises = finding_promises(c->action->spec, c->operation, NULL);
	OplDecision decision;
	OplClaim    what;

	promises.margin = c->action->spec->promises.margin; /* this claim's, not an older's */
	c->operation->op.not_after = c->request->not_after;
	what = opl_claim_ticket(&c->operation->op, &promises, c->lease, c->clock, &decision);
	if (decision.moved)
		store(c, &decision);
	if (what != OPL_CLAIM_SEND)
		return answer_now(c);
	record_claim(c);
	return ANSWER_SEND;
}

/* ------------------------------------------------------------------ the ticket */

enum
{
	COL_OP_ID,
	COL_DECISION,
	COL_ATTEMPT,
	COL_KEY,
	COL_MARKER,
	COL_ARGS,
	COL_METHOD,
	COL_URL,
	COL_HEADERS,
	COL_BODY,
	COL_LEASE_UNTIL,
	COL_STATE,
	COL_EXTERNAL_ID,
	COL_RETRY_AFTER,
	COL_REASON,
	COL_MESSAGE,
	NCOLS
};

typedef struct Ticket
{
	Datum values[NCOLS];
	bool  nulls[NCOLS];
} Ticket;

static void
put_text_or_null(Ticket *t, int column, const char *text)
{
	t->nulls[column] = text == NULL;
	if (text)
		t->values[column] = CStringGetTextDatum(text);
}

static void
put(Ticket *t, int column, Datum value)
{
	t->values[column] = value;
	t->nulls[column] = false;
}

/* What is to be sent, and only to the one who may send it. No secret is in it:
 * the client has its own. */
static void
put_request(Ticket *t, const Claim *c)
{
	const LedgerRequest   *r = c->request;
	const LedgerOperation *o = c->operation;

	put(t, COL_ATTEMPT, Int32GetDatum(o->op.attempts));
	put_text_or_null(t, COL_KEY, r->key);
	put_text_or_null(t, COL_MARKER,
					 canon_marker(r->name_space, o->op_id, o->op.generation));
	put(t, COL_ARGS, JsonbPGetDatum(r->args));
	put_text_or_null(t, COL_METHOD, r->method);
	put_text_or_null(t, COL_URL, r->url);
	put(t, COL_HEADERS, datum_texts(r->headers, r->nheaders));
	if (r->body)
		put(t, COL_BODY, datum_bytes(r->body, r->body_len));
	put(t, COL_LEASE_UNTIL, TimestampTzGetDatum(c->due_at));
}

static Datum
ticket_datum(FunctionCallInfo fcinfo, const Claim *c, Answer answer)
{
	Ticket    t;
	TupleDesc descriptor;

	if (get_call_result_type(fcinfo, NULL, &descriptor) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "op_ticket was expected as result type");
	memset(t.nulls, true, sizeof(t.nulls));
	put_text_or_null(&t, COL_OP_ID, c->operation->op_id);
	put_text_or_null(&t, COL_DECISION, answers[answer].word);
	put_text_or_null(&t, COL_STATE, opl_state_name(c->operation->op.state));
	put_text_or_null(&t, COL_EXTERNAL_ID, c->operation->external_id);
	put_text_or_null(&t, COL_REASON, c->operation->reason);
	put_text_or_null(&t, COL_MESSAGE, answers[answer].message);
	if (answer == ANSWER_SEND)
		put_request(&t, c);
	else if (answer != ANSWER_DONE && c->step != OPL_STEP_NONE)
		put(&t, COL_RETRY_AFTER, Int32GetDatum(seconds_until(c->due_at)));
	return HeapTupleGetDatum(
		heap_form_tuple(BlessTupleDesc(descriptor), t.values, t.nulls));
}

Datum
op_claim(PG_FUNCTION_ARGS)
{
	char  *op_id = op_id_argument(fcinfo);
	Claim  c = {.lease = lease_argument(fcinfo)};
	Answer answer;

	PreventCommandDuringRecovery("op_claim()");
	c.ledger = ledger_open(get_func_namespace(fcinfo->flinfo->fn_oid));
	refuse_away_from_home(&c.ledger);
	c.operation = operation_lock(&c.ledger, op_id);
	if (c.operation == NULL)
		no_such_operation(op_id);
	c.clock = finding_clock(NULL); /* after the wait for the row */
	c.action = action_get(&c.ledger, c.operation->action);
	refuse_of_worker(&c);
	c.request = request_read(&c.ledger, op_id, c.operation->op.generation);
	c.step = agenda_step(&c.ledger, op_id, &c.due_at);
	answer = answer_now(&c);
	if (answer == ANSWER_SEND)
		answer = take(&c);
	PG_RETURN_DATUM(ticket_datum(fcinfo, &c, answer));
}
