/*
 * report.c - op_report: what a client saw is evidence like any other.
 *
 * It is classified and decided as if the worker had sent. A report that comes when
 * its lease has run out, or when something else moved the operation, is recorded
 * all the same: of it a living object counts.
 */
#include "postgres.h"

#include "base/compat.h"
#include "access/xlog.h"
#include "spec/answer.h"
#include "store/actions.h"
#include "store/agenda.h"
#include "store/attempt.h"
#include "store/config.h"
#include "base/errors.h"
#include "store/event.h"
#include "store/finding.h"
#include "fmgr.h"
#include "store/operation.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "session/receipt.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"
#include "base/wake.h"

PG_FUNCTION_INFO_V1(op_report);

/* Positions of op_report's arguments. */
enum
{
	ARG_OP_ID,
	ARG_ATTEMPT,
	ARG_STATUS,
	ARG_HEADERS,
	ARG_BODY,
	ARG_ERROR,
	ARG_SENT
};

/* One report and what it is about. */
typedef struct Report
{
	Ledger           ledger;
	LedgerOperation *operation;
	Action          *action;
	int              attempt;
	OplKind          kind; /* SEND or LATE */
	int              generation;
	LedgerRequest   *request; /* NULL: purged */
	TimestampTz      claimed_at;
	OplClock         clock;
	Evidence         evidence;
	Judgement        judgement;
} Report;

/* ---------------------------------------------------------------- evidence */

/* Retry-After in seconds; a date is left to the back-off. */
static int
retry_after(const char *lines)
{
	static const char name[] = "retry-after: ";

	for (const char *p = lines; p && *p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL)
	{
		if (pg_strncasecmp(p, name, strlen(name)) == 0)
			return (int) Min(strtoul(p + strlen(name), NULL, 10), PG_INT32_MAX);
	}
	return 0;
}

static void
read_headers(FunctionCallInfo fcinfo, Evidence *e)
{
	StringInfoData lines;

	initStringInfo(&lines);
	if (!PG_ARGISNULL(ARG_HEADERS))
		answer_put_headers(&lines, PG_GETARG_JSONB_P(ARG_HEADERS));
	e->headers = lines.data;
	e->headers_len = lines.len;
	e->retry_after = retry_after(lines.data);
}

static void
read_body(FunctionCallInfo fcinfo, Evidence *e, int limit)
{
	bytea *body;

	if (PG_ARGISNULL(ARG_BODY))
		return;
	body = PG_GETARG_BYTEA_PP(ARG_BODY);
	e->body = VARDATA_ANY(body);
	e->body_len = Min(VARSIZE_ANY_EXHDR(body), limit);
	e->cut = VARSIZE_ANY_EXHDR(body) > limit;
}

/* How far it got: only a status without an error is a whole answer. */
static Phase
phase_of(const Evidence *e)
{
	if (!e->sent)
		return PHASE_NONE;
	if (e->http_status == 0)
		return PHASE_SENT;
	return e->error[0] ? PHASE_HEAD : PHASE_DONE;
}

static void
check_evidence(const Evidence *e)
{
	if (e->http_status != 0 && (e->http_status < 100 || e->http_status > 599))
		ereport(ERROR, (errcode(OPL_ERR_ARGUMENT),
						errmsg("status %d is no HTTP status", e->http_status),
						errhint("NULL means that no answer came.")));
	if (!e->sent && e->http_status != 0)
		ereport(ERROR, (errcode(OPL_ERR_ARGUMENT),
						errmsg("a request that was not sent has no status"),
						errhint("sent => false is for requests of which surely no byte "
								"left; leave it out in doubt.")));
}

static void
read_evidence(FunctionCallInfo fcinfo, Report *r)
{
	Evidence *e = &r->evidence;

	e->sent = PG_ARGISNULL(ARG_SENT) || PG_GETARG_BOOL(ARG_SENT);
	e->http_status = PG_ARGISNULL(ARG_STATUS) ? 0 : PG_GETARG_INT32(ARG_STATUS);
	if (!PG_ARGISNULL(ARG_ERROR))
		strlcpy(e->error, text_to_cstring(PG_GETARG_TEXT_PP(ARG_ERROR)),
				sizeof(e->error));
	check_evidence(e);
	e->bytes_sent = e->sent ? -1 : 0;
	e->phase = phase_of(e);
	e->started_at = r->claimed_at;
	e->finished_at = r->clock.now;
	read_headers(fcinfo, e);
	read_body(fcinfo, e, r->action->spec->response_limit);
}

/* ------------------------------------------------------------------ whose it is */

static void
refuse_attempt(const Report *r)
{
	ereport(ERROR, (errcode(OPL_ERR_ARGUMENT),
					errmsg("attempt %d of operation \"%s\" was not claimed by a client",
						   r->attempt, r->operation->op_id),
					errhint("Report under the attempt that op_claim() gave.")));
}

/* The claim that is under way, or an earlier one: its lease ran out, or something else
 * ended it. */
static void
find_claim(Report *r)
{
	const OplOperation *op = &r->operation->op;
	int                 reissues;

	r->kind = OPL_KIND_LATE;
	if (op->state == OPL_SUBMITTED && op->attempts == r->attempt)
	{
		r->kind = OPL_KIND_SEND;
		r->generation = op->generation;
		r->claimed_at = op->last_sent_at;
	}
	else if (!event_find_claim(&r->ledger, r->operation->op_id, r->attempt,
							   &r->claimed_at, &reissues))
		refuse_attempt(r);
	else
		r->generation = op->generation - reissues;
}

/* -------------------------------------------------------------------- settling */

static void
judge(Report *r)
{
	Ours ours = {r->operation->op_id, r->generation,
				 r->request ? r->request->name_space : r->action->spec->name_space};

	r->judgement = classify_send(r->action->spec, &ours, &r->evidence);
}

static OplDecision
decide(Report *r)
{
	OplPromises promises = finding_promises(r->action->spec, r->operation, &r->judgement);
	OplFinding  finding =
		finding_of(&r->ledger, r->operation, &r->judgement, r->kind, r->claimed_at);

	if (r->generation != r->operation->op.generation)
		finding.same_generation = false;
	/* It went where the ticket said, whatever the provider's row says now. */
	if (r->kind == OPL_KIND_SEND)
		promises.place = r->operation->op.place;
	return opl_decide(&r->operation->op, &promises, &finding, r->clock);
}

/* A late one takes no number of ours: that would fence what is under way. */
static void
record(const Report *r)
{
	const char   *op_id = r->operation->op_id;
	LedgerAttempt attempt = {.op_id = op_id,
							 .n = attempt_free_number(&r->ledger, op_id, r->attempt),
							 .kind = "report",
							 .generation = r->generation,
							 .verdict = opl_verdict_name(r->judgement.verdict),
							 .reason = r->judgement.reason,
							 .external_id = r->judgement.external_id,
							 .request_id = r->judgement.request_id,
							 .evidence = &r->evidence,
							 .started_at = r->claimed_at,
							 .finished_at = r->clock.now};

	attempt_insert(&r->ledger, &attempt, 1);
}

static void
pause_provider(const Report *r)
{
	const char *note =
		psprintf("%s, reported of \"%s\"", r->judgement.reason, r->operation->op_id);

	if (config_pause(&r->ledger, r->operation->provider, note))
		ereport(WARNING,
				(errmsg("provider \"%s\" is paused: %s", r->operation->provider, note),
				 errhint("Repair the cause, then call op_provider_resume('%s').",
						 r->operation->provider)));
}

static void
settle(FunctionCallInfo fcinfo, Report *r)
{
	OplDecision decision;

	find_claim(r);
	read_evidence(fcinfo, r);
	r->request =
		request_read(&r->ledger, r->operation->op_id, r->operation->op.generation);
	if (r->request != NULL)
		r->operation->op.not_after = r->request->not_after;
	judge(r);
	decision = decide(r);
	record(r);
	if (decision.pause)
		pause_provider(r);
	if (decision.moved || decision.note_failed)
		finding_store(&r->ledger, r->operation, &decision, &r->judgement,
					  decision.step == OPL_STEP_SEND, r->clock.now);
}

static void
check_executor(const Report *r)
{
	if (r->action->spec->executor != EXECUTOR_CLIENT)
		ereport(ERROR,
				(errcode(OPL_ERR_ARGUMENT),
				 errmsg("operation \"%s\" is sent by the worker", r->operation->op_id),
				 errhint("Only operations whose action has the executor "
						 "\"client\" are reported.")));
}

Datum
op_report(PG_FUNCTION_ARGS)
{
	char  *op_id = op_id_argument(fcinfo);
	Report r = {.attempt = PG_ARGISNULL(ARG_ATTEMPT) ? 0 : PG_GETARG_INT32(ARG_ATTEMPT)};
	TimestampTz due_at = OPL_NEVER;

	PreventCommandDuringRecovery("op_report()");
	r.ledger = ledger_open(get_func_namespace(fcinfo->flinfo->fn_oid));
	r.operation = operation_lock(&r.ledger, op_id);
	if (r.operation == NULL)
		no_such_operation(op_id);
	r.clock = finding_clock(NULL);
	r.action = action_get(&r.ledger, r.operation->action);
	check_executor(&r);
	settle(fcinfo, &r);
	if (!opl_state_ended(r.operation->op.state))
		due_at = agenda_due_at(&r.ledger, op_id);
	PG_RETURN_DATUM(receipt_datum(fcinfo, r.operation, false, due_at, NULL));
}
