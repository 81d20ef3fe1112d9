/*
 * ledger_rows.c - operations, their requests and attempts, row by row.
 *
 * A turn locks with SKIP LOCKED before it writes: it never waits for a session.
 * Rows that it holds are known by their place.
 */
#include "postgres.h"

#include "store/ledger.h"

#include "store/columns.h"
#include "store/command.h"
#include "base/errors.h"
#include "store/shapes.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

/* --------------------------------------------------------------- operations */

static OplState
state_in(Tuples *t)
{
	char     name[NAMEDATALEN];
	OplState state;

	tuples_name(t, O_STATE, name, sizeof(name));
	if (!opl_state_parse(name, &state))
		elog(ERROR, "unknown state \"%s\"", name);
	return state;
}

static OplSeal
seal_in(Tuples *t)
{
	char    name[NAMEDATALEN];
	OplSeal seal;

	tuples_name(t, O_SEALED, name, sizeof(name));
	opl_seal_parse(name, &seal);
	return seal;
}

static void
read_operation(Tuples *t, LedgerOperation *out)
{
	out->op_id = tuples_text(t, O_OP_ID);
	out->action = tuples_text(t, O_ACTION);
	out->provider = tuples_text(t, O_PROVIDER);
	out->op.state = state_in(t);
	out->op.tainted = tuples_bool(t, O_TAINTED);
	out->op.sealed = seal_in(t);
	out->op.contradiction = tuples_bool(t, O_CONTRADICTION);
	out->op.adopted = tuples_bool(t, O_ADOPTED);
	out->op.generation = tuples_int(t, O_GENERATION);
	out->op.attempts = tuples_int(t, O_ATTEMPTS);
	out->op.tries = tuples_int(t, O_TRIES);
	out->op.trying_since = tuples_time(t, O_TRYING_SINCE);
	out->op.first_sent_at = tuples_time(t, O_FIRST_SENT_AT);
	out->op.last_sent_at = tuples_time(t, O_LAST_SENT_AT);
	out->op.not_after = OPL_NEVER;
	out->external_id = tuples_text(t, O_EXTERNAL_ID);
	out->failed_ids = tuples_texts(t, O_FAILED_IDS, &out->nfailed);
	out->reason = tuples_text(t, O_REASON);
	out->args_hash = tuples_varlena(t, O_ARGS_HASH);
	out->created_at = tuples_time(t, O_CREATED_AT);
	out->lease_until = tuples_time(t, O_LEASE_UNTIL);
	out->xmin = tuples_xmin(t);
	out->row = tuples_row(t);
}

static LedgerOperation *
read_alloc(Tuples *t)
{
	LedgerOperation *operation = palloc0(sizeof(LedgerOperation));

	read_operation(t, operation);
	return operation;
}

LedgerOperation *
ledger_read(const char *op_id, bool snapshot_of_caller)
{
	Command          command = command_begin_as(snapshot_of_caller);
	Tuples          *t = command_open(&shape_operations, TUPLES_TO_READ);
	LedgerOperation *operation = NULL;

	if (tuples_find_text(t, op_id))
		operation = read_alloc(t);
	tuples_close(t);
	command_end(&command);
	return operation;
}

/* Those that are there and can be locked. */
static int
lock_operations(char **op_ids, const ItemPointerData *were_at, int n, LockWaitPolicy wait,
				LedgerOperation *locked)
{
	Command command = command_begin();
	Tuples *t = command_open(&shape_operations, TUPLES_TO_LOCK);
	int     count = 0;

	for (int i = 0; i < n; i++)
	{
		if (tuples_find_from(t, were_at ? &were_at[i] : NULL, op_ids[i]) &&
			tuples_lock(t, TUPLES_KEEP_KEY, wait))
			read_operation(t, &locked[count++]);
	}
	tuples_close(t);
	command_end(&command);
	return count;
}

LedgerOperation *
ledger_lock(const char *op_id)
{
	char            *ids[] = {(char *) op_id};
	LedgerOperation *operation = rows_alloc(sizeof(LedgerOperation));

	return lock_operations(ids, NULL, 1, LockWaitBlock, operation) > 0 ? operation : NULL;
}

LedgerOperation *
ledger_lock_operations(char **op_ids, const ItemPointerData *were_at, int n, int *count)
{
	LedgerOperation *locked = rows_alloc(sizeof(LedgerOperation) * n);

	*count = lock_operations(op_ids, were_at, n, LockWaitSkip, locked);
	return locked;
}

LedgerOperation *
ledger_operations_at(const ItemPointerData *rows, int n)
{
	Command          command = command_begin();
	Tuples          *t = command_open(&shape_operations, TUPLES_TO_READ);
	LedgerOperation *found = palloc0(sizeof(LedgerOperation) * n);

	for (int i = 0; i < n; i++)
	{
		tuples_go(t, &rows[i]);
		read_operation(t, &found[i]);
	}
	tuples_close(t);
	command_end(&command);
	return found;
}

/* An object that failed joins the others, once. */
static void
add_failed(Tuples *t, const char *failed_id)
{
	int    n;
	char **ids = tuples_texts(t, O_FAILED_IDS, &n);
	char **all = palloc(sizeof(char *) * (n + 1));

	for (int i = 0; i < n; i++)
	{
		if (strcmp(ids[i], failed_id) == 0)
			return;
		all[i] = ids[i];
	}
	all[n] = (char *) failed_id;
	tuples_set(t, O_FAILED_IDS, text_array(all, n + 1), false);
}

/* Decisions follow the arrows; should one not, nothing is written. */
static void
check_arrow(Tuples *t, const LedgerChange *change)
{
	OplState from = state_in(t);
	OplState to = change->decision.after.state;

	if (from != to && !opl_state_may_become(from, to))
		ereport(ERROR, (errcode(OPL_ERR_ARROW),
						errmsg("operation \"%s\" cannot go from %s to %s", change->op_id,
							   opl_state_name(from), opl_state_name(to)),
						errdetail("op_transitions() lists what can happen.")));
}

/* An operation that is not marked must not be sent. */
static void
check_written(Tuples *t, const LedgerChange *change)
{
	const char *state = opl_state_name(change->decision.after.state);

	if (!tuples_wrote(t, O_STATE, state))
		ereport(ERROR, (errcode(ERRCODE_TRIGGERED_ACTION_EXCEPTION),
						errmsg("a trigger kept operation \"%s\" from becoming %s",
							   change->op_id, state),
						errhint("\\d op_operation lists its triggers; none but "
								"op_ledger's may change a state.")));
}

/* The present row, as the decision wants it; where it is now. */
static ItemPointerData
update_operation(Tuples *t, const LedgerChange *change, TimestampTz now)
{
	const OplOperation *after = &change->decision.after;
	bool                sealed = after->sealed != OPL_SEAL_NONE;
	ItemPointerData     row;

	check_arrow(t, change);
	tuples_copy(t);
	tuples_set_text(t, O_STATE, opl_state_name(after->state));
	tuples_set_bool(t, O_TAINTED, after->tainted);
	tuples_set_text(t, O_SEALED, sealed ? opl_seal_name(after->sealed) : NULL);
	tuples_set_bool(t, O_CONTRADICTION, after->contradiction);
	tuples_set_int(t, O_ATTEMPTS, after->attempts);
	tuples_set_int(t, O_TRIES, after->tries);
	tuples_set_time(t, O_TRYING_SINCE, after->trying_since);
	tuples_set_time(t, O_FIRST_SENT_AT, after->first_sent_at);
	tuples_set_time(t, O_LAST_SENT_AT, after->last_sent_at);
	tuples_set_time(t, O_SETTLED_AT, opl_state_ended(after->state) ? now : OPL_NEVER);
	tuples_set_text(t, O_REASON, change->reason);
	if (change->external_id)
		tuples_set_text(t, O_EXTERNAL_ID, change->external_id);
	if (change->failed_id)
		add_failed(t, change->failed_id);
	row = tuples_update(t);
	check_written(t, change);
	return row;
}

void
ledger_save(LedgerChange *changes, int n, TimestampTz now)
{
	Command command = command_begin();
	Tuples *t = command_open(&shape_operations, TUPLES_TO_WRITE);

	for (int i = 0; i < n; i++)
	{
		tuples_go(t, &changes[i].row);
		changes[i].row = update_operation(t, &changes[i], now);
	}
	tuples_close(t);
	command_end(&command);
}

/* The transaction may have changed the row since it was locked. */
void
ledger_save_one(const LedgerChange *change, TimestampTz now)
{
	Command command = command_begin();
	Tuples *t = command_open(&shape_operations, TUPLES_TO_WRITE);

	if (!tuples_find_text(t, change->op_id))
		elog(ERROR, "operation \"%s\" is gone though it was locked", change->op_id);
	update_operation(t, change, now);
	tuples_close(t);
	command_end(&command);
}

/* -------------------------------------------------------------------- birth */

static bool
insert_operation(Tuples *t, const LedgerBirth *b)
{
	tuples_new(t);
	tuples_set_text(t, O_OP_ID, b->op_id);
	tuples_set_text(t, O_ACTION, b->action);
	tuples_set_text(t, O_PROVIDER, b->provider);
	tuples_set_text(t, O_STATE, opl_state_name(b->born.after.state));
	tuples_set_bool(t, O_TAINTED, false);
	tuples_set_bool(t, O_CONTRADICTION, false);
	tuples_set_bool(t, O_ADOPTED, false);
	tuples_set_int(t, O_GENERATION, 1);
	tuples_set_int(t, O_ATTEMPTS, 0);
	tuples_set_int(t, O_TRIES, 0);
	tuples_set(t, O_ARGS_HASH, bytes_datum((const char *) b->args_hash, 32), false);
	tuples_set_text(t, O_RUN_ID, b->run_id);
	tuples_set_text(t, O_LANE, b->lane);
	tuples_set_text(t, O_SUBMITTED_BY, b->submitted_by);
	tuples_set_time(t, O_CREATED_AT, GetCurrentTimestamp());
	return tuples_insert_first(t);
}

static void
insert_request(const LedgerBirth *b)
{
	Tuples *t = command_open(&shape_requests, TUPLES_TO_WRITE);

	tuples_new(t);
	tuples_set_text(t, R_OP_ID, b->op_id);
	tuples_set_int(t, R_GENERATION, 1);
	tuples_set(t, R_ARGS, JsonbPGetDatum(b->args), false);
	tuples_set_text(t, R_KEY, b->key);
	tuples_set_text(t, R_METHOD, b->method);
	tuples_set_text(t, R_URL, b->url);
	tuples_set(t, R_HEADERS, text_array(b->headers, b->nheaders), false);
	if (b->body)
		tuples_set(t, R_BODY, bytes_datum(b->body, b->body_len), false);
	tuples_set_text(t, R_STEP, b->step);
	tuples_set_text(t, R_TOOL_CALL_ID, b->tool_call_id);
	tuples_set_text(t, R_DEDUPE_KEY, b->dedupe_key);
	tuples_set_text(t, R_TRACEPARENT, b->traceparent);
	tuples_set(t, R_NOT_BEFORE, b->not_before, b->no_not_before);
	tuples_set(t, R_NOT_AFTER, b->not_after, b->no_not_after);
	tuples_set(t, R_COST, b->cost, b->no_cost);
	tuples_insert(t);
	tuples_close(t);
}

static void
plan_first(const LedgerBirth *birth)
{
	LedgerChange born = {
		.op_id = birth->op_id, .provider = birth->provider, .decision = birth->born};

	if (birth->born.step != OPL_STEP_NONE)
		ledger_plan(&born, 1, 0);
}

static bool
insert(Tuples *t, const LedgerBirth *birth)
{
	if (!insert_operation(t, birth))
		return false;
	insert_request(birth);
	return true;
}

bool
ledger_insert(LedgerBirth *birth, LedgerFreeze freeze, const void *how,
			  LedgerOperation **there)
{
	Command command = command_begin();
	Tuples *t = command_open(&shape_operations, TUPLES_TO_INSERT_FIRST);
	bool    first = false;

	*there = NULL;
	if (tuples_find_text(t, birth->op_id))
		*there = read_alloc(t);
	else
	{
		freeze(birth, how);
		first = insert(t, birth);
	}
	tuples_close(t);
	command_end(&command);
	if (first)
		plan_first(birth);
	return first;
}

/* ----------------------------------------------------------------- requests */

static void
read_request(Tuples *t, LedgerRequest *out)
{
	bytea *body;

	out->op_id = tuples_text(t, R_OP_ID);
	out->generation = tuples_int(t, R_GENERATION);
	out->args = tuples_varlena(t, R_ARGS);
	out->key = tuples_text(t, R_KEY);
	out->method = tuples_text(t, R_METHOD);
	out->url = tuples_text(t, R_URL);
	out->headers = tuples_texts(t, R_HEADERS, &out->nheaders);
	body = tuples_varlena(t, R_BODY);
	out->body = body ? VARDATA(body) : NULL;
	out->body_len = body ? VARSIZE(body) - VARHDRSZ : 0;
	out->traceparent = tuples_text(t, R_TRACEPARENT);
	out->not_before = tuples_time(t, R_NOT_BEFORE);
	out->not_after = tuples_time(t, R_NOT_AFTER);
}

LedgerRequest *
ledger_requests(char **op_ids, const int *generations, int n, int *count)
{
	Command        command = command_begin();
	Tuples        *t = command_open(&shape_requests, TUPLES_TO_READ);
	LedgerRequest *found = palloc0(sizeof(LedgerRequest) * Max(n, 1));

	*count = 0;
	for (int i = 0; i < n; i++)
	{
		TuplesKey key[] = {{R_OP_ID, TUPLES_TEXT, CStringGetTextDatum(op_ids[i])},
						   {R_GENERATION, TUPLES_INT, Int32GetDatum(generations[i])}};

		tuples_find(t, key, 2);
		if (tuples_next(t))
			read_request(t, &found[(*count)++]);
	}
	tuples_close(t);
	command_end(&command);
	return found;
}

LedgerRequest *
ledger_request(const char *op_id, int generation)
{
	char          *ids[] = {(char *) op_id};
	int            count;
	LedgerRequest *request = ledger_requests(ids, &generation, 1, &count);

	return count > 0 ? request : NULL;
}

/* ----------------------------------------------------------------- attempts */

static void
set_bytes(Tuples *t, int column, StringInfo before, const char *data, size_t len)
{
	StringInfoData all;

	if (!before)
	{
		tuples_set(t, column, data ? bytes_datum(data, len) : (Datum) 0, data == NULL);
		return;
	}
	/* behind those of earlier pages */
	initStringInfo(&all);
	appendBinaryStringInfo(&all, before->data, before->len);
	appendBinaryStringInfo(&all, data ? data : "", len);
	tuples_set(t, column, bytes_datum(all.data, all.len), false);
}

static void
set_number(Tuples *t, int column, int value, bool null)
{
	tuples_set(t, column, Int32GetDatum(value), null);
}

/* What was seen of the exchange; nothing when its end was not seen. */
static void
set_evidence(Tuples *t, const Evidence *e)
{
	set_number(t, A_HTTP_STATUS, e->http_status, e->http_status == 0);
	set_number(t, A_CURL_CODE, e->curl_code, false);
	tuples_set(t, A_BYTES_SENT, Int64GetDatum(e->bytes_sent), e->bytes_sent < 0);
	tuples_set_text(t, A_PEER, e->peer[0] ? e->peer : NULL);
	set_number(t, A_CONNECT_US, e->connect_us, false);
	set_number(t, A_FIRST_BYTE_US, e->first_byte_us, false);
	set_number(t, A_TOTAL_US, e->total_us, false);
	set_number(t, A_RETRY_AFTER, e->retry_after, e->retry_after == 0);
	tuples_set_text(t, A_ERROR, e->error[0] ? e->error : NULL);
}

static void
insert_attempt(Tuples *t, const LedgerAttempt *a)
{
	const Evidence *e = a->evidence;

	tuples_new(t);
	tuples_set_text(t, A_OP_ID, a->op_id);
	tuples_set_int(t, A_N, a->n);
	tuples_set_text(t, A_KIND, a->kind);
	tuples_set_int(t, A_GENERATION, a->generation);
	tuples_set_time(t, A_STARTED_AT, a->started_at);
	tuples_set_time(t, A_FINISHED_AT, a->finished_at);
	tuples_set_text(t, A_VERDICT, a->verdict);
	tuples_set_text(t, A_REASON, a->reason);
	tuples_set_text(t, A_EXTERNAL_ID, a->external_id);
	if (e)
		set_evidence(t, e);
	tuples_set_text(t, A_REQUEST_ID, a->request_id);
	set_bytes(t, A_RESPONSE_HEADERS, a->headers, e ? e->headers : NULL,
			  e ? e->headers_len : 0);
	set_bytes(t, A_RESPONSE_BODY, a->bodies, e ? e->body : NULL, e ? e->body_len : 0);
	set_number(t, A_PAGES, a->pages, a->pages <= 1);
	tuples_insert(t);
}

void
ledger_record(const LedgerAttempt *recorded, int n)
{
	Command command = command_begin();
	Tuples *t = command_open(&shape_attempts, TUPLES_TO_WRITE);

	for (int i = 0; i < n; i++)
		insert_attempt(t, &recorded[i]);
	tuples_close(t);
	command_end(&command);
}
