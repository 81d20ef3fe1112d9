/*
 * claim.c - what is due -> what goes out.
 *
 * The agenda is the lease: claiming moves its row to the attempt's deadline and
 * writes our epoch. Locks op_due, then op_operation, both with SKIP LOCKED.
 */
#include "postgres.h"

#include "worker/claim.h"

#include "base/by_op_id.h"
#include "store/config.h"
#include "store/finding.h"
#include "worker/pace.h"
#include "worker/trouble.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

/* One whose operation a session holds comes back after this; others that are due
 * come first meanwhile. */
#define HELD OPL_SECOND

/* Of lookups that are due so many times more are looked at than can go out: those
 * whose key is forgotten first go first. */
#define LOOK_AHEAD 8

/* ------------------------------------------------------------------- cursor */

/* While the agenda holds more than may go out, the next scan starts where the last
 * one ended: what was claimed leaves dead entries in front, and walking them again
 * each turn costs more the longer the agenda is. A row that was committed late, or
 * came back, may be due before the cursor; a scan from the beginning follows when
 * the agenda runs out, and once a second. */
typedef struct CursorKey
{
	char    provider[NAMEDATALEN];
	OplStep step;
} CursorKey;

typedef struct Cursor
{
	CursorKey   key;
	TimestampTz since;
	int64       from_start_at; /* steady: the last scan from the beginning; 0: none */
} Cursor;

#define FROM_START OPL_SECOND

static Cursor *
cursor_of(const char *provider, OplStep step)
{
	static HTAB *cursors = NULL;
	HASHCTL      how = {.keysize = sizeof(CursorKey), .entrysize = sizeof(Cursor)};
	CursorKey    key = {.step = step};
	Cursor      *cursor;
	bool         found;

	if (!cursors)
		cursors = hash_create("op_ledger cursors", 32, &how, HASH_ELEM | HASH_BLOBS);
	strlcpy(key.provider, provider, sizeof(key.provider));
	cursor = hash_search(cursors, &key, HASH_ENTER, &found);
	if (!found)
	{
		cursor->since = DT_NOBEGIN;
		cursor->from_start_at = 0;
	}
	return cursor;
}

static TimestampTz
scan_from(const char *provider, OplStep step, int64 now)
{
	Cursor *cursor = cursor_of(provider, step);

	if (now >= cursor->from_start_at + FROM_START)
		cursor->since = DT_NOBEGIN;
	if (cursor->since == DT_NOBEGIN)
		cursor->from_start_at = now;
	return cursor->since;
}

/* What the scan for these places took: full, it goes on from there. */
static void
move_cursor(const Batch *batch, const LedgerPlaces *places)
{
	Cursor *cursor = cursor_of(places->provider, places->step);
	int     taken = 0;

	for (int i = 0; i < batch->ndue; i++)
	{
		const LedgerDue *due = &batch->due[i];

		if (due->step != places->step || strcmp(due->provider, places->provider) != 0)
			continue;
		taken++;
		cursor->since = Max(cursor->since, due->due_at);
	}
	if (taken < places->places || places->step == OPL_STEP_LOOKUP)
		cursor->since = DT_NOBEGIN; /* some of them may be passed over */
}

/* ------------------------------------------------------------- held by others */

/* Not written down: whoever holds the operation's row may be about to claim it, and
 * must find the agenda as it was. */
typedef struct Held
{
	char *op_id;
	int64 until; /* by the steady clock */
} Held;

static Held *held = NULL;
static int   nheld = 0;

static void
let_be(const char *op_id, int64 until)
{
	static int room = 0;

	if (nheld == room)
	{
		room = Max(64, 2 * room);
		held = held ? repalloc(held, sizeof(Held) * room)
					: MemoryContextAlloc(TopMemoryContext, sizeof(Held) * room);
	}
	held[nheld].op_id = MemoryContextStrdup(TopMemoryContext, op_id);
	held[nheld++].until = until;
}

static void
forget_held(int64 now)
{
	int kept = 0;

	for (int i = 0; i < nheld; i++)
	{
		if (held[i].until > now)
			held[kept++] = held[i];
		else
			pfree(held[i].op_id);
	}
	nheld = kept;
}

/* What is not taken now: held by sessions, or the cause of trouble. Sorted. */
static char **
avoided(int64 now, int *count)
{
	int    ntrouble;
	char **trouble = trouble_avoided(now, &ntrouble);
	char **op_ids;

	forget_held(now);
	op_ids = palloc(sizeof(char *) * (ntrouble + nheld + 1));
	*count = 0;
	for (int i = 0; i < ntrouble; i++)
		op_ids[(*count)++] = trouble[i];
	for (int i = 0; i < nheld; i++)
		op_ids[(*count)++] = held[i].op_id;
	by_op_id_sort(op_ids, *count, sizeof(char *));
	return op_ids;
}

/* ------------------------------------------------------------------- taking */

/* Places that answers of this batch give back when it is committed. */
static int
given_back(const Batch *batch, const char *provider, OplStep step)
{
	int n = 0;

	for (int i = 0; i < batch->nsettled; i++)
	{
		const Exchange *exchange = batch->settled[i];

		if (exchange->step == step && strcmp(exchange->provider, provider) == 0)
			n++;
	}
	return n;
}

static void
add_places(Batch *batch, const char *provider, OplStep step)
{
	int places = pace_free(provider, step, given_back(batch, provider, step));

	if (places <= 0)
		return;
	batch->places[batch->nplaces].free = places;
	if (step == OPL_STEP_LOOKUP)
		places *= LOOK_AHEAD;
	batch->places[batch->nplaces].provider = provider;
	batch->places[batch->nplaces].step = step;
	batch->places[batch->nplaces].places = places;
	batch->places[batch->nplaces].since = scan_from(provider, step, batch->steady);
	batch->nplaces++;
}

/* What may go on the wire now. Who comes first changes from turn to turn. */
static void
free_places(Batch *batch)
{
	static int      first = 0;
	int             n;
	LedgerProvider *providers = config_providers(batch->ledger, &n);

	batch->places = palloc0(sizeof(LedgerPlaces) * Max(2 * n, 1));
	for (int i = 0; i < n; i++)
		pace_provider(providers[i].name, providers[i].concurrency, providers[i].paused);
	first++;
	for (int i = 0; i < 2 * n; i++)
	{
		int k = (i + first) % (2 * n);

		add_places(batch, providers[k / 2].name, k % 2 ? OPL_STEP_SEND : OPL_STEP_LOOKUP);
	}
}

void
claim_take(Batch *batch, int limit)
{
	int    n;
	char **others = avoided(batch->steady, &n);

	free_places(batch);
	if (batch->nplaces == 0)
		return;
	batch->due = agenda_take(batch->ledger, batch->places, batch->nplaces, limit, others,
							 n, batch->now, &batch->ndue);
	for (int i = 0; i < batch->nplaces; i++)
		move_cursor(batch, &batch->places[i]);
}

TimestampTz
claim_next(const Batch *batch)
{
	if (batch->nplaces == 0)
		return OPL_NEVER;
	return agenda_next(batch->ledger, batch->places, batch->nplaces, batch->now);
}

/* ----------------------------------------------------------------- claiming */

static void
add_lost(Batch *batch, const LedgerOperation *operation)
{
	LedgerAttempt *attempt = batch_attempt(batch, operation->op_id);

	attempt->n = operation->op.attempts;
	attempt->kind = "send";
	attempt->generation = operation->op.generation;
	attempt->verdict = opl_verdict_name(OPL_V_UNKNOWN);
	attempt->reason = "lost";
	attempt->started_at = operation->op.last_sent_at;
	attempt->finished_at = batch->now;
}

/* Ours, and in hand: its deadline passed because a session holds the row. */
static void
put_off(Batch *batch, const LedgerOperation *operation, const LedgerDue *due)
{
	OplDecision   later = opl_put_off(&operation->op, due->step, batch->now);
	LedgerChange *change = batch_change(batch, operation, &later);

	change->claimed = true;
	change->due = due->row;
}

static void
claim(Batch *batch, const LedgerDue *due, LedgerOperation *operation,
	  LedgerRequest *request, Action *action)
{
	OplPromises   promises = finding_promises(action->spec, operation, NULL);
	OplDecision   decision;
	OplClaim      what;
	LedgerChange *change;

	if (!request)
		ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
						errmsg("operation \"%s\" has no request of generation %d",
							   operation->op_id, operation->op.generation)));
	operation->op.not_after = request->not_after;
	promises.margin = action->spec->promises.margin; /* ours, not a client's */
	what = opl_claim(&operation->op, &promises, due->step, batch->clock, &decision);
	if (operation->op.state == OPL_SUBMITTED)
		add_lost(batch, operation);
	change = batch_change(batch, operation, &decision);
	change->due = due->row;
	change->for_client = what == OPL_CLAIM_CLIENT;
	change->claimed = what == OPL_CLAIM_SEND || what == OPL_CLAIM_LOOKUP;
	if (!change->claimed)
		return;
	batch->claimed_by[batch->nclaimed] = batch->nchanges - 1;
	batch->claimed[batch->nclaimed++] =
		flight_prepare(operation, request, action,
					   what == OPL_CLAIM_SEND ? OPL_STEP_SEND : OPL_STEP_LOOKUP,
					   &decision, batch->steady);
}

/* The actions of one batch are few: each is asked for once. */
typedef struct Asked
{
	const char *name;
	Action     *action;
} Asked;

static Action *
action_of(const Batch *batch, Asked *asked, int *nasked, const char *name)
{
	for (int i = 0; i < *nasked; i++)
	{
		if (strcmp(asked[i].name, name) == 0)
			return asked[i].action;
	}
	asked[*nasked].name = name;
	asked[*nasked].action = action_get(batch->ledger, name);
	return asked[(*nasked)++].action;
}

/* ------------------------------------------------------------------ urgency */

typedef struct Candidate
{
	int         due;    /* of batch->due */
	TimestampTz window; /* when it ends; infinity: nothing can be resent anyway */
} Candidate;

static TimestampTz
window_end(const LedgerOperation *operation, const Action *action, TimestampTz now)
{
	const OplOperation *op = &operation->op;
	TimestampTz         end = op->first_sent_at + action->spec->promises.ttl;

	if (op->state != OPL_UNKNOWN || op->sealed != OPL_SEAL_NONE ||
		op->first_sent_at == OPL_NEVER || end <= now)
		return DT_NOEND;
	return end;
}

static int
by_window(const void *a, const void *b)
{
	const Candidate *x = a;
	const Candidate *y = b;

	if (x->window != y->window)
		return x->window < y->window ? -1 : 1;
	return x->due - y->due;
}

/* Every other time the one that has been due for longest comes first, whatever its
 * window, so that none waits for ever. */
static void
pass_over(Batch *batch, const LedgerPlaces *places, Candidate *candidates, int n,
		  bool *passed)
{
	static bool oldest_first = false;
	int         kept = 0;

	if (n <= places->free)
		return;
	oldest_first = !oldest_first;
	kept = oldest_first ? 1 : 0;
	qsort(candidates + kept, n - kept, sizeof(Candidate), by_window);
	for (int i = places->free; i < n; i++)
		passed[candidates[i].due] = true;
}

/* The rows of the agenda that are left for a later turn. */
static bool *
choose_lookups(Batch *batch, LedgerOperation *operations, int noperations, Asked *asked,
			   int *nasked)
{
	bool      *passed = palloc0(sizeof(bool) * batch->ndue);
	Candidate *candidates = palloc(sizeof(Candidate) * batch->ndue);

	for (int p = 0; p < batch->nplaces; p++)
	{
		const LedgerPlaces *places = &batch->places[p];
		int                 n = 0;

		if (places->step != OPL_STEP_LOOKUP)
			continue;
		for (int i = 0; i < batch->ndue; i++)
		{
			const LedgerDue *due = &batch->due[i];
			LedgerOperation *operation = by_op_id_find(
				operations, noperations, sizeof(LedgerOperation), due->op_id);

			if (!operation || due->step != OPL_STEP_LOOKUP ||
				strcmp(due->provider, places->provider) != 0)
				continue;
			candidates[n].due = i;
			candidates[n++].window =
				window_end(operation, action_of(batch, asked, nasked, operation->action),
						   batch->now);
		}
		pass_over(batch, places, candidates, n, passed);
	}
	return passed;
}

static LedgerRequest *
load_requests(const Batch *batch, LedgerOperation *operations, int noperations,
			  int *count)
{
	char         **ids = palloc(sizeof(char *) * noperations);
	int           *generations = palloc(sizeof(int) * noperations);
	LedgerRequest *requests;

	*count = 0;
	if (noperations == 0)
		return NULL;
	for (int i = 0; i < noperations; i++)
	{
		ids[i] = operations[i].op_id;
		generations[i] = operations[i].op.generation;
	}
	requests = request_read_many(batch->ledger, ids, generations, noperations, count);
	by_op_id_sort(requests, *count, sizeof(LedgerRequest));
	return requests;
}

static LedgerOperation *
lock_operations(Batch *batch, int *count)
{
	char           **ids = palloc(sizeof(char *) * batch->ndue);
	LedgerOperation *operations;

	for (int i = 0; i < batch->ndue; i++)
		ids[i] = batch->due[i].op_id;
	operations = operation_lock_free(batch->ledger, ids, NULL, batch->ndue, count);
	by_op_id_sort(operations, *count, sizeof(LedgerOperation));
	return operations;
}

void
claim_due(Batch *batch)
{
	int              noperations;
	int              nrequests;
	LedgerOperation *operations;
	LedgerRequest   *requests;
	Asked           *asked;
	bool            *passed;
	int              nasked = 0;
	int              nsettled;
	char           **settled;

	if (batch->ndue == 0)
		return;
	settled = batch_changed(batch, &nsettled);
	operations = lock_operations(batch, &noperations);
	batch_look_at_clock(batch);
	requests = load_requests(batch, operations, noperations, &nrequests);
	asked = palloc(sizeof(Asked) * Max(noperations, 1));
	passed = choose_lookups(batch, operations, noperations, asked, &nasked);
	for (int i = 0; i < batch->ndue; i++)
	{
		const LedgerDue *due = &batch->due[i];
		LedgerOperation *operation =
			by_op_id_find(operations, noperations, sizeof(LedgerOperation), due->op_id);

		if (passed[i] || by_op_id_find(settled, nsettled, sizeof(char *), due->op_id))
			continue;
		if (!operation)
			let_be(due->op_id, batch->steady + HELD);
		else if (flight_has(operation->op_id, operation->op.attempts))
			put_off(batch, operation, due);
		else
			claim(batch, due, operation,
				  by_op_id_find(requests, nrequests, sizeof(LedgerRequest), due->op_id),
				  action_of(batch, asked, &nasked, operation->action));
	}
}
