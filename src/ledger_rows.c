/*
 * ledger_rows.c - the part of ledger.h that works row by row: what op_submit(),
 * op_status() and every turn read, lock and write.
 *
 * A turn locks with SKIP LOCKED before it writes: it never waits for a session.
 * Rows that it holds are known by their place.
 */
#include "postgres.h"

#include "ledger.h"

#include "columns.h"
#include "config.h"
#include "errors.h"
#include "rows.h"
#include "tuples.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

/* ------------------------------------------------------------------- shapes */

/* Columns as src/sql/10_tables.sql lists them; each opening of a table compares. */
enum
{
	O_OP_ID = 1,
	O_ACTION,
	O_PROVIDER,
	O_STATE,
	O_TAINTED,
	O_SEALED,
	O_CONTRADICTION,
	O_ADOPTED,
	O_GENERATION,
	O_ATTEMPTS,
	O_TRIES,
	O_TRYING_SINCE,
	O_FIRST_SENT_AT,
	O_LAST_SENT_AT,
	O_LEASE_UNTIL,
	O_EXTERNAL_ID,
	O_FAILED_IDS,
	O_REASON,
	O_ARGS_HASH,
	O_RUN_ID,
	O_LANE,
	O_UNDOES,
	O_SUBMITTED_BY,
	O_CREATED_AT,
	O_SETTLED_AT
};

static const char *const operation_columns[] = {
	"op_id",       "action",        "provider",      "state",        "tainted",
	"sealed",      "contradiction", "adopted",       "generation",   "attempts",
	"tries",       "trying_since",  "first_sent_at", "last_sent_at", "lease_until",
	"external_id", "failed_ids",    "reason",        "args_hash",    "run_id",
	"lane",        "undoes",        "submitted_by",  "created_at",   "settled_at"};

enum
{
	R_OP_ID = 1,
	R_GENERATION,
	R_ARGS,
	R_KEY,
	R_METHOD,
	R_URL,
	R_HEADERS,
	R_BODY,
	R_STEP,
	R_TOOL_CALL_ID,
	R_DEDUPE_KEY,
	R_TRACEPARENT,
	R_NOT_BEFORE,
	R_NOT_AFTER,
	R_COST
};

static const char *const request_columns[] = {
	"op_id",      "generation",  "args",       "key",       "method",
	"url",        "headers",     "body",       "step",      "tool_call_id",
	"dedupe_key", "traceparent", "not_before", "not_after", "cost"};

enum
{
	D_OP_ID = 1,
	D_PROVIDER,
	D_STEP,
	D_DUE_AT,
	D_EPOCH
};

static const char *const due_columns[] = {"op_id", "provider", "step", "due_at", "epoch"};

enum
{
	A_OP_ID = 1,
	A_N,
	A_KIND,
	A_GENERATION,
	A_STARTED_AT,
	A_FINISHED_AT,
	A_VERDICT,
	A_REASON,
	A_EXTERNAL_ID,
	A_HTTP_STATUS,
	A_CURL_CODE,
	A_BYTES_SENT,
	A_PEER,
	A_CONNECT_US,
	A_FIRST_BYTE_US,
	A_TOTAL_US,
	A_RETRY_AFTER,
	A_REQUEST_ID,
	A_RESPONSE_HEADERS,
	A_RESPONSE_BODY,
	A_ERROR,
	A_PAGES
};

static const char *const attempt_columns[] = {
	"op_id",       "n",           "kind",       "generation",       "started_at",
	"finished_at", "verdict",     "reason",     "external_id",      "http_status",
	"curl_code",   "bytes_sent",  "peer",       "connect_us",       "first_byte_us",
	"total_us",    "retry_after", "request_id", "response_headers", "response_body",
	"error",       "pages"};

enum
{
	C_SYSTEM_IDENTIFIER = 1,
	C_DATABASE,
	C_EXTENSION,
	C_TIMELINE,
	C_CONTROL_INODE,
	C_ADOPTED_AT,
	C_ADOPTED_BY,
	C_RETIRED
};

static const char *const control_columns[] = {
	"system_identifier", "database_oid", "extension_oid", "timeline",
	"control_inode",     "adopted_at",   "adopted_by",    "retired"};

static const char *const action_columns[] = {"name", "provider", "template", "spec",
											 "version"};
static const char *const provider_columns[] = {"name",      "profile",     "base_url",
											   "secret",    "spec",        "paused",
											   "paused_at", "paused_note", "version"};
static const char *const profile_columns[] = {"name", "spec", "version"};

enum
{
	ACTION_PROVIDER = 2,
	ACTION_VERSION = 5,
	PROVIDER_NAME = 1,
	PROVIDER_PROFILE = 2,
	PROVIDER_PAUSED = 6,
	PROVIDER_VERSION = 9,
	PROFILE_VERSION = 3
};

#define BIT(column) (UINT64CONST(1) << (column))
#define SHAPE(table, index, columns, updated)                     \
	{                                                             \
		table, index, lengthof(columns), columns, (updated), NULL \
	}

#define OPERATION_UPDATED                                                           \
	(BIT(O_STATE) | BIT(O_TAINTED) | BIT(O_SEALED) | BIT(O_CONTRADICTION) |         \
	 BIT(O_ATTEMPTS) | BIT(O_TRIES) | BIT(O_TRYING_SINCE) | BIT(O_FIRST_SENT_AT) |  \
	 BIT(O_LAST_SENT_AT) | BIT(O_EXTERNAL_ID) | BIT(O_FAILED_IDS) | BIT(O_REASON) | \
	 BIT(O_SETTLED_AT))

/* What its guard asks, update_operation() has asked. */
static const Shape operations = {
	.table = "op_operation",
	.ncolumns = lengthof(operation_columns),
	.columns = operation_columns,
	.updated = OPERATION_UPDATED,
	.guard = "op_operation_guard",
};
static const Shape requests = SHAPE("op_request", NULL, request_columns, 0);
static const Shape agenda =
	SHAPE("op_due", NULL, due_columns, BIT(D_STEP) | BIT(D_DUE_AT) | BIT(D_EPOCH));
static const Shape agenda_by_time = SHAPE("op_due", "op_due_next", due_columns, 0);
static const Shape attempts = SHAPE("op_attempt", NULL, attempt_columns, 0);
static const Shape homes = SHAPE("op_control", NULL, control_columns, 0);
static const Shape actions = SHAPE("op_action", NULL, action_columns, 0);
static const Shape providers = SHAPE("op_provider", NULL, provider_columns, 0);
static const Shape profiles = SHAPE("op_profile", NULL, profile_columns, 0);

/* -------------------------------------------------------------------- tools */
/* Around a command. What is read goes where results go; and a trigger of the user's
 * that a row fires may call us. */
typedef struct Command
{
	MemoryContext before;
	RowsState     state;
} Command;

static Command
begin_as(bool snapshot_of_caller)
{
	Command command = {MemoryContextSwitchTo(rows_context()), rows_state()};

	tuples_begin(snapshot_of_caller);
	return command;
}

static Command
begin(void)
{
	return begin_as(false);
}

static void
end(const Command *command)
{
	tuples_end();
	rows_back_to(command->state);
	MemoryContextSwitchTo(command->before);
}

static Tuples *
open(const Shape *shape, TuplesTo to)
{
	return tuples_open(rows_schema(), shape, to);
}

/* The row whose key is this text. */
static bool
find(Tuples *t, const char *key)
{
	TuplesKey is = {1, TUPLES_TEXT, CStringGetTextDatum(key)};

	tuples_find(t, &is, 1);
	return tuples_next(t);
}

/* It is likely where it was; the index finds it where it is. */
static bool
find_from(Tuples *t, const ItemPointerData *was_at, const char *key)
{
	return (was_at && tuples_visit(t, was_at) && tuples_is(t, 1, key)) || find(t, key);
}

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

/* In the agenda: a send that the worker leaves to op_claim(). */
#define CLAIM_STEP "claim"

static OplStep
step_in(Tuples *t)
{
	char    name[NAMEDATALEN];
	OplStep step;

	tuples_name(t, D_STEP, name, sizeof(name));
	if (strcmp(name, CLAIM_STEP) == 0)
		return OPL_STEP_SEND;
	opl_step_parse(name, &step);
	return step;
}

/* --------------------------------------------------------------- operations */

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

LedgerOperation *
ledger_read(const char *op_id, bool snapshot_of_caller)
{
	Command          command = begin_as(snapshot_of_caller);
	Tuples          *t = open(&operations, TUPLES_TO_READ);
	LedgerOperation *operation = NULL;

	if (find(t, op_id))
	{
		operation = palloc0(sizeof(LedgerOperation));
		read_operation(t, operation);
	}
	tuples_close(t);
	end(&command);
	return operation;
}

/* Those that are there and can be locked. */
static int
lock_operations(char **op_ids, const ItemPointerData *were_at, int n, LockWaitPolicy wait,
				LedgerOperation *locked)
{
	Command command = begin();
	Tuples *t = open(&operations, TUPLES_TO_LOCK);
	int     count = 0;

	for (int i = 0; i < n; i++)
	{
		if (find_from(t, were_at ? &were_at[i] : NULL, op_ids[i]) &&
			tuples_lock(t, TUPLES_KEEP_KEY, wait))
			read_operation(t, &locked[count++]);
	}
	tuples_close(t);
	end(&command);
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
	Command          command = begin();
	Tuples          *t = open(&operations, TUPLES_TO_READ);
	LedgerOperation *found = palloc0(sizeof(LedgerOperation) * n);

	for (int i = 0; i < n; i++)
	{
		tuples_go(t, &rows[i]);
		read_operation(t, &found[i]);
	}
	tuples_close(t);
	end(&command);
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

/* The present row, as the decision wants it; where it is now. */
static ItemPointerData
update_operation(Tuples *t, const LedgerChange *change, TimestampTz now)
{
	const OplOperation *after = &change->decision.after;
	bool                sealed = after->sealed != OPL_SEAL_NONE;

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
	return tuples_update(t);
}

void
ledger_save(LedgerChange *changes, int n, TimestampTz now)
{
	Command command = begin();
	Tuples *t = open(&operations, TUPLES_TO_WRITE);

	for (int i = 0; i < n; i++)
	{
		tuples_go(t, &changes[i].row);
		changes[i].row = update_operation(t, &changes[i], now);
	}
	tuples_close(t);
	end(&command);
}

/* The transaction may have changed the row since it was locked. */
void
ledger_save_one(const LedgerChange *change, TimestampTz now)
{
	Command command = begin();
	Tuples *t = open(&operations, TUPLES_TO_WRITE);

	if (!find(t, change->op_id))
		elog(ERROR, "operation \"%s\" is gone though it was locked", change->op_id);
	update_operation(t, change, now);
	tuples_close(t);
	end(&command);
}

/* -------------------------------------------------------------------- birth */

static bool
insert_operation(const LedgerBirth *b)
{
	Tuples *t = open(&operations, TUPLES_TO_INSERT_FIRST);
	bool    first;

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
	first = tuples_insert_first(t);
	tuples_close(t);
	return first;
}

static void
insert_request(const LedgerBirth *b)
{
	Tuples *t = open(&requests, TUPLES_TO_WRITE);

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

/* A row of the agenda; epoch 0: nobody's. */
static void
insert_due(Tuples *t, const char *op_id, const char *provider, const char *step,
		   TimestampTz due_at, int64 epoch)
{
	tuples_new(t);
	tuples_set_text(t, D_OP_ID, op_id);
	tuples_set_text(t, D_PROVIDER, provider);
	tuples_set_text(t, D_STEP, step);
	tuples_set_time(t, D_DUE_AT, due_at);
	tuples_set(t, D_EPOCH, Int64GetDatum(epoch), epoch == 0);
	tuples_insert(t);
}

static void
insert_first_due(const LedgerBirth *b)
{
	Tuples *t = open(&agenda, TUPLES_TO_WRITE);

	insert_due(t, b->op_id, b->provider, opl_step_name(b->born.step), b->born.due_at, 0);
	tuples_close(t);
}

bool
ledger_insert(const LedgerBirth *birth)
{
	Command command = begin();
	bool    first = insert_operation(birth);

	if (first)
	{
		insert_request(birth);
		if (birth->born.step != OPL_STEP_NONE)
			insert_first_due(birth);
	}
	end(&command);
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
	Command        command = begin();
	Tuples        *t = open(&requests, TUPLES_TO_READ);
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
	end(&command);
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

/* --------------------------------------------------------------- the agenda */

OplStep
ledger_agenda(const char *op_id, bool snapshot_of_caller, TimestampTz *due_at)
{
	Command command = begin_as(snapshot_of_caller);
	Tuples *t = open(&agenda, TUPLES_TO_READ);
	OplStep step = OPL_STEP_NONE;

	*due_at = OPL_NEVER;
	if (find(t, op_id))
	{
		step = step_in(t);
		*due_at = tuples_time(t, D_DUE_AT);
	}
	tuples_close(t);
	end(&command);
	return step;
}

TimestampTz
ledger_due_at(const char *op_id, bool snapshot_of_caller)
{
	TimestampTz due_at;

	(void) ledger_agenda(op_id, snapshot_of_caller, &due_at);
	return due_at;
}

static void
read_due(Tuples *t, LedgerDue *out)
{
	out->op_id = tuples_text(t, D_OP_ID);
	out->provider = tuples_text(t, D_PROVIDER);
	out->step = step_in(t);
	out->due_at = tuples_time(t, D_DUE_AT);
	out->row = tuples_row(t);
}

static bool
is_among(Tuples *t, int column, char **texts, int n)
{
	char *text = n > 0 ? tuples_text(t, column) : NULL;

	for (int i = 0; i < n; i++)
	{
		if (strcmp(text, texts[i]) == 0)
			return true;
	}
	return false;
}

/* Its latest version may not be due any more: somebody was faster. */
static bool
is_due(Tuples *t, const LedgerPlaces *places, TimestampTz now)
{
	char provider[NAMEDATALEN];

	tuples_name(t, D_PROVIDER, provider, sizeof(provider));
	return strcmp(provider, places->provider) == 0 && step_in(t) == places->step &&
		   tuples_time(t, D_DUE_AT) <= now;
}

static void
look_from(Tuples *t, const LedgerPlaces *places, TuplesIs is, TimestampTz from,
		  const TimestampTz *until)
{
	TuplesKey keys[] = {
		{1, TUPLES_TEXT, CStringGetTextDatum(places->provider)},
		{2, TUPLES_TEXT, CStringGetTextDatum(opl_step_name(places->step))},
		{3, is, TimestampTzGetDatum(from)},
		{3, TUPLES_UNTIL, TimestampTzGetDatum(until ? *until : 0)}};

	tuples_find(t, keys, until ? 4 : 3);
}

/* What is due for these places, locked. */
static int
take(Tuples *t, const LedgerPlaces *places, int limit, char **avoided, int navoided,
	 TimestampTz now, LedgerDue *out)
{
	int n = 0;

	look_from(t, places, TUPLES_FROM, places->since, &now);
	while (n < limit && tuples_next(t))
	{
		if (!is_among(t, D_OP_ID, avoided, navoided) &&
			tuples_lock(t, TUPLES_ANY, LockWaitSkip) && is_due(t, places, now))
			read_due(t, &out[n++]);
	}
	return n;
}

LedgerDue *
ledger_take_due(const LedgerPlaces *places, int nplaces, int limit, char **avoided,
				int navoided, TimestampTz now, int *count)
{
	Command    command = begin();
	Tuples    *t = open(&agenda_by_time, TUPLES_TO_LOCK);
	LedgerDue *due = palloc0(sizeof(LedgerDue) * limit);

	*count = 0;
	for (int i = 0; i < nplaces; i++)
		*count += take(t, &places[i], Min(places[i].places, limit - *count), avoided,
					   navoided, now, &due[*count]);
	tuples_close(t);
	end(&command);
	return due;
}

TimestampTz
ledger_next_due(const LedgerPlaces *places, int nplaces, TimestampTz now)
{
	Command     command = begin();
	Tuples     *t = open(&agenda_by_time, TUPLES_TO_READ);
	TimestampTz next = OPL_NEVER;

	for (int i = 0; i < nplaces; i++)
	{
		look_from(t, &places[i], TUPLES_LATER_THAN, now, NULL);
		if (tuples_next(t) && (next == OPL_NEVER || tuples_time(t, D_DUE_AT) < next))
			next = tuples_time(t, D_DUE_AT);
	}
	tuples_close(t);
	end(&command);
	return next;
}

LedgerDue *
ledger_lock_due(char **op_ids, const ItemPointerData *were_at, int n, int *count)
{
	Command    command = begin();
	Tuples    *t = open(&agenda, TUPLES_TO_LOCK);
	LedgerDue *due = palloc0(sizeof(LedgerDue) * n);

	*count = 0;
	for (int i = 0; i < n; i++)
	{
		if (find_from(t, were_at ? &were_at[i] : NULL, op_ids[i]) &&
			tuples_lock(t, TUPLES_ANY, LockWaitSkip))
			read_due(t, &due[(*count)++]);
	}
	tuples_close(t);
	end(&command);
	return due;
}

char **
ledger_have_due(char **op_ids, int n, int *count)
{
	Command command = begin();
	Tuples *t = open(&agenda, TUPLES_TO_READ);
	char  **have = palloc(sizeof(char *) * n);

	*count = 0;
	for (int i = 0; i < n; i++)
	{
		if (find(t, op_ids[i]))
			have[(*count)++] = op_ids[i];
	}
	tuples_close(t);
	end(&command);
	return have;
}

static const char *
step_of(const LedgerChange *change)
{
	return change->for_client ? CLAIM_STEP : opl_step_name(change->decision.step);
}

/* The present row, as a lease of this epoch; 0: nobody's. */
static ItemPointerData
update_due(Tuples *t, const char *step, TimestampTz due_at, int64 epoch)
{
	tuples_copy(t);
	tuples_set_text(t, D_STEP, step);
	tuples_set_time(t, D_DUE_AT, due_at);
	tuples_set(t, D_EPOCH, Int64GetDatum(epoch), epoch == 0);
	return tuples_update(t);
}

/* What has no next step leaves the agenda. */
static void
plan(Tuples *t, LedgerChange *change, int64 epoch)
{
	const OplDecision *decision = &change->decision;
	bool               has_due = ItemPointerIsValid(&change->due);

	if (has_due)
		tuples_go(t, &change->due);
	if (decision->step == OPL_STEP_NONE && has_due)
		tuples_delete(t);
	else if (decision->step != OPL_STEP_NONE && has_due)
		change->due = update_due(t, step_of(change), decision->due_at, epoch);
	else if (decision->step != OPL_STEP_NONE)
		insert_due(t, change->op_id, change->provider, step_of(change), decision->due_at,
				   epoch);
}

void
ledger_plan(LedgerChange *changes, int n, int64 epoch)
{
	Command command = begin();
	Tuples *t = open(&agenda, TUPLES_TO_WRITE);

	for (int i = 0; i < n; i++)
	{
		if (changes[i].decision.moved)
			plan(t, &changes[i], changes[i].claimed ? epoch : 0);
	}
	tuples_close(t);
	end(&command);
}

void
ledger_defer(const LedgerDue *due, int n, TimestampTz due_at)
{
	Command command = begin();
	Tuples *t = open(&agenda, TUPLES_TO_WRITE);

	for (int i = 0; i < n; i++)
	{
		tuples_go(t, &due[i].row);
		tuples_copy(t);
		tuples_set_time(t, D_DUE_AT, due_at);
		tuples_update(t);
	}
	tuples_close(t);
	end(&command);
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
	Command command = begin();
	Tuples *t = open(&attempts, TUPLES_TO_WRITE);

	for (int i = 0; i < n; i++)
		insert_attempt(t, &recorded[i]);
	tuples_close(t);
	end(&command);
}

/* ------------------------------------------------------------ configuration */

/* What a row of configuration says of its version; 0: there is none. */
static int64
version_of(const Shape *shape, const char *name, int column)
{
	Tuples *t = open(shape, TUPLES_TO_READ);
	int64   version = find(t, name) ? tuples_bigint(t, column) : 0;

	tuples_close(t);
	return version;
}

static bool
read_action(const char *action, char **provider, int64 *version)
{
	Tuples *t = open(&actions, TUPLES_TO_READ);
	bool    found = find(t, action);

	if (found)
	{
		*provider = tuples_text(t, ACTION_PROVIDER);
		*version = tuples_bigint(t, ACTION_VERSION);
	}
	tuples_close(t);
	return found;
}

/* A profile that is gone says nothing. */
static bool
read_provider(const char *provider, int64 *version, bool *paused)
{
	Tuples *t = open(&providers, TUPLES_TO_READ);
	bool    found = find(t, provider);

	if (found)
	{
		*version ^=
			tuples_bigint(t, PROVIDER_VERSION) ^
			version_of(&profiles, tuples_text(t, PROVIDER_PROFILE), PROFILE_VERSION);
		*paused = tuples_bool(t, PROVIDER_PAUSED);
	}
	tuples_close(t);
	return found;
}

uint64
ledger_config_edition(void)
{
	return config_edition(rows_schema());
}

bool
ledger_action(const char *action, char **provider, int64 *version, bool *paused)
{
	Command command = begin();
	bool    found = read_action(action, provider, version) &&
				 read_provider(*provider, version, paused);

	end(&command);
	return found;
}

/* Room for one more. */
static void *
grow(void *rows, int count, int *room, size_t size)
{
	if (count < *room)
		return rows;
	*room = Max(8, 2 * *room);
	return rows ? repalloc(rows, size * *room) : palloc(size * *room);
}

static LedgerProvider *
read_providers(int *count)
{
	Command         command = begin();
	Tuples         *t = open(&providers, TUPLES_TO_READ);
	LedgerProvider *read = NULL;
	int             room = 0;

	*count = 0;
	tuples_all(t);
	while (tuples_next(t))
	{
		read = grow(read, *count, &room, sizeof(LedgerProvider));
		read[*count].name = tuples_text(t, PROVIDER_NAME);
		read[(*count)++].paused = tuples_bool(t, PROVIDER_PAUSED);
	}
	tuples_close(t);
	end(&command);
	for (int i = 0; i < *count; i++)
		read[i].concurrency = ledger_concurrency(read[i].name);
	return read;
}

/* What was read of the configuration, for as long as that is of one edition. */
static struct
{
	uint64          edition;
	MemoryContext   context;
	LedgerProvider *providers;
	int             count;
} kept;

static void
keep(uint64 edition, const LedgerProvider *read, int n)
{
	if (!kept.context)
		kept.context = AllocSetContextCreate(TopMemoryContext, "op_ledger providers",
											 ALLOCSET_SMALL_SIZES);
	kept.edition = 0;
	MemoryContextReset(kept.context);
	kept.providers = MemoryContextAlloc(kept.context, sizeof(LedgerProvider) * Max(n, 1));
	for (int i = 0; i < n; i++)
	{
		kept.providers[i] = read[i];
		kept.providers[i].name = MemoryContextStrdup(kept.context, read[i].name);
	}
	kept.count = n;
	kept.edition = edition;
}

/* Valid until the next call. */
LedgerProvider *
ledger_providers(int *count)
{
	uint64          edition = config_edition(rows_schema());
	LedgerProvider *read;

	if (edition == 0 || edition != kept.edition)
	{
		read = read_providers(count);
		if (edition == 0)
			return read;
		keep(edition, read, *count);
	}
	*count = kept.count;
	return kept.providers;
}

/* -------------------------------------------------------------------- homes */

static void
read_home(Tuples *t, HomeRow *out)
{
	bool null;

	out->system_identifier = (uint64) tuples_bigint(t, C_SYSTEM_IDENTIFIER);
	out->database = DatumGetObjectId(tuples_datum(t, C_DATABASE, &null));
	out->extension = DatumGetObjectId(tuples_datum(t, C_EXTENSION, &null));
	out->timeline = (uint32) tuples_int(t, C_TIMELINE);
	out->control_inode = tuples_bigint(t, C_CONTROL_INODE);
	out->retired = tuples_bool(t, C_RETIRED);
}

static HomeRow *
read_homes(int *count)
{
	Command  command = begin();
	Tuples  *t = open(&homes, TUPLES_TO_READ);
	HomeRow *rows = NULL;
	int      room = 0;

	*count = 0;
	tuples_all(t);
	while (tuples_next(t))
	{
		rows = grow(rows, *count, &room, sizeof(HomeRow));
		read_home(t, &rows[(*count)++]);
	}
	tuples_close(t);
	end(&command);
	return rows;
}

HomeFault
ledger_home_fault(Oid extension)
{
	int      n;
	HomeRow *rows = read_homes(&n);
	HomeRow  here = home_here(extension);

	return home_fault(rows, n, &here);
}
