/*
 * stored.c - what the store writes and reads, field by field.
 *
 * Each field has a value of its own that says its name, or is a number or a moment that
 * no other has; so two fields that are confused are seen.
 */
#include "postgres.h"

#include "base/canon.h"
#include "base/compat.h"
#include "fmgr.h"
#include "funcapi.h"
#include "store/agenda.h"
#include "store/attempt.h"
#include "store/event.h"
#include "store/home.h"
#include "store/operation.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(_op_fields_write);
PG_FUNCTION_INFO_V1(_op_fields_read);

static Ledger
open_ledger(void)
{
	Oid schema;

	(void) home_extension(&schema);
	return ledger_open(schema);
}

/* Midnight of a day of January 2001, UTC. */
static TimestampTz
day(int n)
{
	return (TimestampTz) (366 + n - 1) * USECS_PER_DAY;
}

static void
freeze(LedgerBirth *b, const void *how)
{
	static char *headers[] = {"headers: 1", "headers: 2"};

	b->key = "key";
	b->method = "method";
	b->url = "url";
	b->nheaders = 2;
	b->headers = headers;
	b->body = "body";
	b->body_len = 4;
	b->base_url = "base_url";
	b->name_space = "namespace";
}

static void
insert(const Ledger *ledger, const char *op_id)
{
	uint8           *hash = palloc(CANON_DIGEST_LEN);
	LedgerOperation *there;
	LedgerBirth      b = {.op_id = op_id,
						  .action = "action",
						  .provider = "provider",
						  .submitted_by = "submitted_by",
						  .args_hash = hash,
						  .run_id = "run_id",
						  .lane = "lane",
						  .step = "step",
						  .tool_call_id = "tool_call_id",
						  .dedupe_key = "dedupe_key",
						  .traceparent = "traceparent",
						  .not_before = TimestampTzGetDatum(day(1)),
						  .not_after = TimestampTzGetDatum(day(2)),
						  .born = {.after = {.state = OPL_PENDING, .generation = 1},
								   .step = OPL_STEP_SEND,
								   .due_at = day(3)}};

	memset(hash, 0xaa, CANON_DIGEST_LEN);
	b.args =
		DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum("{\"args\": 1}")));
	b.cost = DirectFunctionCall1(int4_numeric, Int32GetDatum(15));
	if (!operation_insert(ledger, &b, freeze, NULL, &there))
		elog(ERROR, "operation \"%s\" is there", op_id);
}

/* As a decision would: every field that decisions write. */
static void
save(const Ledger *ledger, const char *op_id, bool tainted)
{
	LedgerOperation *o = operation_lock(ledger, op_id);
	char            *ids[] = {(char *) op_id};
	int              n;
	LedgerDue       *due = agenda_lock(ledger, ids, NULL, 1, &n);
	LedgerChange     change = {.op_id = op_id,
							   .provider = "provider",
							   .reason = "reason",
							   .external_id = "external_id",
							   .failed_id = "failed_ids",
							   .claimed = true,
							   .row = o->row,
							   .due = due->row};

	change.decision.after = o->op;
	change.decision.after.state = OPL_FAILED;
	change.decision.after.tainted = tainted;
	change.decision.after.contradiction = !tainted;
	change.decision.after.sealed = OPL_SEAL_EVIDENCE;
	change.decision.after.attempts = 21;
	change.decision.after.tries = 22;
	change.decision.after.trying_since = day(4);
	change.decision.after.first_sent_at = day(5);
	change.decision.after.last_sent_at = day(6);
	change.decision.after.place = 24;
	change.decision.moved = true;
	change.decision.step = OPL_STEP_LOOKUP;
	change.decision.due_at = day(7);
	if (tainted)
		operation_save(ledger, &change, 1, day(8));
	else
		operation_save_one(ledger, &change, day(8));
	agenda_plan(ledger, &change, 1, 23);
	operation_lease(ledger, op_id, day(9));
}

static void
reissue(const Ledger *ledger, const char *op_id)
{
	static char     *headers[] = {"headers: again"};
	LedgerOperation *o = operation_lock(ledger, op_id);
	LedgerRequest    next = {.key = "key again",
							 .method = "method again",
							 .url = "url again",
							 .nheaders = 1,
							 .headers = headers,
							 .body = "body again",
							 .body_len = 10,
							 .base_url = "base_url again",
							 .name_space = "of the first generation"};
	OplDecision      decision = {.after = o->op};

	decision.after.generation = 2;
	decision.after.adopted = true;
	operation_reissue(ledger, o, &decision, &next);
}

static void
adopt(const Ledger *ledger, const char *op_id)
{
	LedgerOperation *o = operation_lock(ledger, op_id);
	LedgerChange     change = {.op_id = op_id,
							   .row = o->row,
							   .reason = "reason",
							   .lease_until = day(10),
							   .decision = {.after = o->op}};

	change.decision.after.state = OPL_UNKNOWN;
	change.decision.after.tainted = true;
	change.decision.after.adopted = true;
	change.decision.after.first_sent_at = day(11);
	change.decision.after.last_sent_at = day(12);
	change.decision.after.place = 25;
	operation_adopt(ledger, &change, 1);
}

static void
insert_attempt(const Ledger *ledger, const char *op_id)
{
	Evidence      evidence = {.http_status = 31,
							  .curl_code = 32,
							  .bytes_sent = 33,
							  .peer = "peer",
							  .connect_us = 34,
							  .first_byte_us = 35,
							  .total_us = 36,
							  .retry_after = 37,
							  .error = "error",
							  .headers = "response_headers",
							  .headers_len = 16,
							  .body = "response_body",
							  .body_len = 13};
	LedgerAttempt attempt = {.op_id = op_id,
							 .n = 38,
							 .kind = "report",
							 .generation = 39,
							 .verdict = "verdict",
							 .reason = "reason",
							 .external_id = "external_id",
							 .request_id = "request_id",
							 .objects = "[\"objects\"]",
							 .evidence = &evidence,
							 .pages = 40,
							 .started_at = day(13),
							 .finished_at = day(14)};

	attempt_insert(ledger, &attempt, 1);
}

/* Operations fields-1 to fields-4. */
Datum
_op_fields_write(PG_FUNCTION_ARGS)
{
	Ledger ledger = open_ledger();

	insert(&ledger, "fields-1");
	save(&ledger, "fields-1", true);
	insert_attempt(&ledger, "fields-1");
	event_insert(&ledger, "fields-1", "actor", "event", "note");
	agenda_nudge(&ledger, "fields-1");
	insert(&ledger, "fields-2");
	save(&ledger, "fields-2", false);
	insert(&ledger, "fields-3");
	reissue(&ledger, "fields-3");
	insert(&ledger, "fields-4");
	adopt(&ledger, "fields-4");
	PG_RETURN_VOID();
}

/* ------------------------------------------------------------------ reading */

static void
put(ReturnSetInfo *result, const char *field, const char *value)
{
	Datum values[] = {CStringGetTextDatum(field),
					  value ? CStringGetTextDatum(value) : (Datum) 0};
	bool  nulls[] = {false, value == NULL};

	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

static void
put_int(ReturnSetInfo *result, const char *field, int value)
{
	put(result, field, psprintf("%d", value));
}

static void
put_bool(ReturnSetInfo *result, const char *field, bool value)
{
	put(result, field, value ? "t" : "f");
}

static void
put_time(ReturnSetInfo *result, const char *field, TimestampTz value)
{
	put(result, field, value == OPL_NEVER ? NULL : timestamptz_to_str(value));
}

static void
put_operation(ReturnSetInfo *result, const LedgerOperation *o)
{
	put(result, "operation.op_id", o->op_id);
	put(result, "operation.action", o->action);
	put(result, "operation.provider", o->provider);
	put(result, "operation.state", opl_state_name(o->op.state));
	put_bool(result, "operation.tainted", o->op.tainted);
	put(result, "operation.sealed", opl_seal_name(o->op.sealed));
	put_bool(result, "operation.contradiction", o->op.contradiction);
	put_bool(result, "operation.adopted", o->op.adopted);
	put_int(result, "operation.generation", o->op.generation);
	put_int(result, "operation.attempts", o->op.attempts);
	put_int(result, "operation.tries", o->op.tries);
	put_time(result, "operation.trying_since", o->op.trying_since);
	put_time(result, "operation.first_sent_at", o->op.first_sent_at);
	put_time(result, "operation.last_sent_at", o->op.last_sent_at);
	put_int(result, "operation.place", (int) o->op.place);
	put_time(result, "operation.lease_until", o->lease_until);
	put(result, "operation.external_id", o->external_id);
	for (int i = 0; i < o->nfailed; i++)
		put(result, "operation.failed_ids", o->failed_ids[i]);
	put(result, "operation.reason", o->reason);
	put(result, "operation.args_hash",
		pnstrdup(VARDATA_ANY(o->args_hash), VARSIZE_ANY_EXHDR(o->args_hash)));
	put_time(result, "operation.created_at", o->created_at);
}

static void
put_request(ReturnSetInfo *result, LedgerRequest *r)
{
	put(result, "request.op_id", r->op_id);
	put_int(result, "request.generation", r->generation);
	put(result, "request.args", JsonbToCString(NULL, &r->args->root, 0));
	put(result, "request.key", r->key);
	put(result, "request.method", r->method);
	put(result, "request.url", r->url);
	for (int i = 0; i < r->nheaders; i++)
		put(result, "request.headers", r->headers[i]);
	put(result, "request.body", pnstrdup(r->body, r->body_len));
	put(result, "request.traceparent", r->traceparent);
	put_time(result, "request.not_before", r->not_before);
	put_time(result, "request.not_after", r->not_after);
	put(result, "request.base_url", r->base_url);
	put(result, "request.namespace", r->name_space);
}

/* What is asked of all its attempts; 38 is taken. */
static void
put_attempts(ReturnSetInfo *result, const Ledger *ledger, const char *op_id)
{
	int    n;
	char **op_ids = attempt_with_object(ledger, "external_id", &n);

	put_time(result, "attempt.finished_at", attempt_last_lookup(ledger, op_id));
	put_bool(result, "attempt.request_id",
			 attempt_has_event(ledger, op_id, "request_id"));
	put_int(result, "attempt.n", attempt_free_number(ledger, op_id, 38));
	for (int i = 0; i < n; i++)
		put(result, "attempt.external_id", op_ids[i]);
}

/* (op id) -> each field as it is read, and its value */
Datum
_op_fields_read(PG_FUNCTION_ARGS)
{
	ReturnSetInfo   *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Ledger           ledger = open_ledger();
	char            *op_id = text_to_cstring(PG_GETARG_TEXT_PP(0));
	LedgerOperation *operation = operation_read(&ledger, op_id);
	int              n;
	LedgerDue       *due = agenda_lock(&ledger, &op_id, NULL, 1, &n);

	InitMaterializedSRF(fcinfo, 0);
	put_operation(result, operation);
	put_request(result, request_read(&ledger, op_id, operation->op.generation));
	put(result, "due.op_id", due->op_id);
	put(result, "due.provider", due->provider);
	put(result, "due.step", opl_step_name(due->step));
	put_time(result, "due.due_at", due->due_at);
	put_attempts(result, &ledger, op_id);
	put(result, "event.note", event_last_note(&ledger, op_id, "event"));
	return (Datum) 0;
}
