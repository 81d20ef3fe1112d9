/*
 * dispatch.c - one turn.
 *
 *	  claim    mark `submitted`, COMMIT synchronously    from here on it may have happened
 *	  send     no transaction is open while the network is
 *	  judge    evidence -> verdict -> decision           pure functions
 *	  settle   write attempt and new state, COMMIT       now we know (or know that we
 *don't)
 *
 * Not marked = certainly never sent. Marked = may have taken effect, whatever
 * came back. A turn settles what came back and claims what may go out, in one
 * transaction with one commit; then it sends.
 *
 *  1. Nothing is handed to the wire before the commit that marks it returned,
 *     nor after a stop was asked for during that commit.
 *  2. Evidence is forgotten only after the commit that stores it.
 *  3. Rows are locked with SKIP LOCKED before they are written: op_due, then
 *     op_operation for a claim; op_operation, then op_due for an answer. So the
 *     worker never waits for a session.
 */
#include "postgres.h"

#include "dispatch.h"

#include "compat.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "common/pg_prng.h"
#include "flight.h"
#include "home.h"
#include "ledger.h"
#include "miscadmin.h"
#include "pace.h"
#include "pgstat.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "trouble.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "wake.h"

#define SETTLE_MAX 256 /* answers in one turn */
#define CLAIM_MAX 128  /* claims in one turn */

#define MILLISECOND INT64CONST(1000)

/* An answer waits at most this long for company. */
#define COMPANY (1 * MILLISECOND)

/* With nothing else to do, look at the agenda this often: prepared transactions
 * and waiting DDL tell nobody. */
#define TICK OPL_SECOND

/* After a claim, and while sessions hold what is due, look again soon. */
#define AGAIN (20 * MILLISECOND)

/* A row of the agenda that must not be taken now comes back after this. */
#define PUT_OFF (10 * OPL_SECOND)

/* What one turn works on; lives as long as its transaction. */
typedef struct Turn
{
	TimestampTz      now;
	Exchange        *answers[SETTLE_MAX];
	int              nanswers;
	LedgerDue       *due;
	int              ndue;
	LedgerOperation *operations; /* locked, sorted by op_id */
	int              noperations;
	LedgerRequest   *requests; /* of what is due, sorted by op_id */
	int              nrequests;
	LedgerDue       *held; /* rows of op_due that are locked, sorted */
	int              nheld;
	char           **absent; /* answers without a row in op_due, sorted */
	int              nabsent;
	LedgerChange    *changes;
	int              nchanges;
	LedgerAttempt   *attempts;
	int              nattempts;
	Exchange        *settled[SETTLE_MAX];
	int              nsettled;
	int              nclaimed;
	int              nplaces;
	LedgerPlaces    *places;
	bool             ended; /* an operation ended: tell those who wait */
} Turn;

void (*dispatch_committing)(bool) = NULL;

static MemoryContext turn_context = NULL;
static int64         my_epoch = 0;
static Oid           my_extension = InvalidOid;
static TimestampTz   next_turn_at = 0;
static TimestampTz   last_turn_at = 0;
static TimestampTz   ticked_at = 0;
static int           turns = 0;
static int           items = 0;       /* that the present turn works on */
static char          suspect[1024];   /* the only one of them, if there is one */
static char          condemned[1024]; /* goes to a person in the next turn */
static char          last_failure[256];
static const char   *told_fault = NULL;

/* ---------------------------------------------------------- the transaction */

static void
begin(void)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	pgstat_report_activity(STATE_RUNNING, "op_ledger turn");
	MemoryContextSwitchTo(turn_context);
}

/* A stop that comes while the commit waits for a standby ends the wait; the
 * interrupt it leaves behind must be taken before anything is sent. */
static void
commit(void)
{
	PopActiveSnapshot();
	if (dispatch_committing)
		dispatch_committing(true);
	CommitTransactionCommand();
	if (dispatch_committing)
		dispatch_committing(false);
	CHECK_FOR_INTERRUPTS();
	pgstat_report_stat(false);
	pgstat_report_activity(STATE_IDLE, NULL);
}

/* Does anybody hold or await a lock that our presence blocks? */
static bool
ddl_waits(void)
{
	LOCKTAG tag;

	SET_LOCKTAG_OBJECT(tag, InvalidOid, DatabaseRelationId, MyDatabaseId, 0);
	if (LockAcquire(&tag, RowExclusiveLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
		return true;
	LockRelease(&tag, RowExclusiveLock, false);
	return false;
}

/* ------------------------------------------------------------------ finding */

static int
by_op_id(const void *a, const void *b)
{
	return strcmp(*(char *const *) a, *(char *const *) b);
}

/* Structs of the ledger start with their op_id. */
static void *
find(void *rows, int n, size_t size, const char *op_id)
{
	return n == 0 ? NULL : bsearch(&op_id, rows, n, size, by_op_id);
}

static LedgerOperation *
operation_of(Turn *t, const char *op_id)
{
	return find(t->operations, t->noperations, sizeof(LedgerOperation), op_id);
}

/* ------------------------------------------------------------------- taking */

static void
add_places(Turn *t, const LedgerProvider *provider, OplStep step)
{
	int places = pace_free(provider->name, step);

	if (places <= 0)
		return;
	t->places[t->nplaces].provider = provider->name;
	t->places[t->nplaces].step = step;
	t->places[t->nplaces].places = places;
	t->nplaces++;
}

/* What may go on the wire now. Who comes first changes from turn to turn. */
static void
free_places(Turn *t)
{
	int             n;
	LedgerProvider *providers = ledger_providers(&n);

	t->places = palloc0(sizeof(LedgerPlaces) * Max(2 * n, 1));
	for (int i = 0; i < n; i++)
		pace_provider(providers[i].name, providers[i].concurrency, providers[i].paused);
	for (int i = 0; i < 2 * n; i++)
	{
		int k = (i + turns) % (2 * n);

		add_places(t, &providers[k / 2], k % 2 ? OPL_STEP_SEND : OPL_STEP_LOOKUP);
	}
}

/* The limit is on what is taken: a place that nothing is due for takes nobody's. */
static void
take_due(Turn *t)
{
	int    n;
	char **avoided = trouble_avoided(t->now, &n);

	free_places(t);
	if (t->nplaces > 0)
		t->due = ledger_take_due(t->places, t->nplaces, trouble_limit(CLAIM_MAX), avoided,
								 n, t->now, &t->ndue);
}

/* Lock the operations of all that was taken, and the agenda's rows of answers. */
static void
lock_rows(Turn *t)
{
	char **ids = palloc(sizeof(char *) * (t->nanswers + t->ndue));
	char **locked = palloc(sizeof(char *) * Max(t->nanswers, 1));
	int    n = 0;

	for (int i = 0; i < t->nanswers; i++)
		ids[n++] = t->answers[i]->op_id;
	for (int i = 0; i < t->ndue; i++)
		ids[n++] = t->due[i].op_id;
	t->operations = ledger_lock_operations(ids, n, &t->noperations);
	qsort(t->operations, t->noperations, sizeof(LedgerOperation), by_op_id);

	n = 0;
	for (int i = 0; i < t->nanswers; i++)
	{
		if (operation_of(t, t->answers[i]->op_id))
			locked[n++] = t->answers[i]->op_id;
	}
	if (n > 0)
		t->held = ledger_lock_due(locked, n, &t->nheld);
	qsort(t->held, t->nheld, sizeof(LedgerDue), by_op_id);
	if (t->nheld < n)
		t->absent = ledger_have_due(locked, n, &t->nabsent);
	qsort(t->absent, t->nabsent, sizeof(char *), by_op_id);
}

static void
load_requests(Turn *t)
{
	char **ids = palloc(sizeof(char *) * Max(t->ndue, 1));
	int   *generations = palloc(sizeof(int) * Max(t->ndue, 1));
	int    n = 0;

	for (int i = 0; i < t->ndue; i++)
	{
		LedgerOperation *operation = operation_of(t, t->due[i].op_id);

		if (!operation)
			continue;
		ids[n] = operation->op_id;
		generations[n++] = operation->op.generation;
	}
	if (n > 0)
		t->requests = ledger_requests(ids, generations, n, &t->nrequests);
	qsort(t->requests, t->nrequests, sizeof(LedgerRequest), by_op_id);
}

/* ------------------------------------------------------------------ settling */

static LedgerChange *
add_change(Turn *t, const LedgerOperation *operation, const OplDecision *decision)
{
	LedgerChange *change = &t->changes[t->nchanges++];

	change->op_id = operation->op_id;
	change->row = operation->row;
	change->provider = operation->provider;
	change->decision = *decision;
	change->reason = decision->reason ? decision->reason : operation->reason;
	if (opl_state_ended(decision->after.state) || decision->after.state == OPL_REVIEW)
		t->ended = t->ended || decision->moved;
	return change;
}

static bool
has_failed(const LedgerOperation *operation, const char *id)
{
	for (int i = 0; i < operation->nfailed; i++)
	{
		if (strcmp(operation->failed_ids[i], id) == 0)
			return true;
	}
	return false;
}

static OplObject
object_of(const LedgerOperation *operation, const char *id)
{
	if (!id || !operation->external_id || has_failed(operation, operation->external_id))
		return OPL_OBJECT_NONE;
	return strcmp(operation->external_id, id) == 0 ? OPL_OBJECT_SAME : OPL_OBJECT_OTHER;
}

/* Every claim and every change of state fences what was under way. */
static bool
is_current(const Exchange *exchange, const LedgerOperation *operation)
{
	return operation->op.generation == exchange->generation &&
		   operation->op.attempts == exchange->n &&
		   operation->op.state == exchange->state;
}

static OplFinding
finding_of(const Exchange *exchange, const LedgerOperation *operation)
{
	const Judgement *judgement = &exchange->judgement;
	OplFinding       finding = {.verdict = judgement->verdict,
								.keyed = judgement->keyed,
								.started_at = exchange->evidence.started_at,
								.retry_at = judgement->retry_at,
								.dice = pg_prng_double(&pg_global_prng_state)};

	if (!is_current(exchange, operation))
		finding.kind = OPL_KIND_LATE;
	else
		finding.kind = exchange->step == OPL_STEP_SEND ? OPL_KIND_SEND : OPL_KIND_LOOKUP;
	finding.object = object_of(operation, judgement->external_id);
	finding.object_failed =
		judgement->external_id && has_failed(operation, judgement->external_id);
	finding.same_generation =
		judgement->same_generation && exchange->generation == operation->op.generation;
	return finding;
}

/* The word for people: the decision's own, or what the answer said. */
static const char *
reason_of(const Judgement *judgement, const OplDecision *decision)
{
	if (decision->reason || decision->after.state == OPL_CONFIRMED)
		return decision->reason;
	if (decision->after.state == OPL_FAILED && judgement->verdict == OPL_V_REJECTED)
		return psprintf("rejected: %s", judgement->reason);
	return judgement->reason;
}

static void
add_attempt(Turn *t, const Exchange *exchange)
{
	LedgerAttempt *attempt = &t->attempts[t->nattempts++];

	attempt->op_id = exchange->op_id;
	attempt->n = exchange->n;
	attempt->kind = opl_step_name(exchange->step);
	attempt->generation = exchange->generation;
	attempt->verdict = opl_verdict_name(exchange->judgement.verdict);
	attempt->reason = exchange->judgement.reason;
	attempt->external_id = exchange->judgement.external_id;
	attempt->request_id = exchange->judgement.request_id;
	attempt->evidence = &exchange->evidence;
	attempt->started_at = exchange->evidence.started_at;
	attempt->finished_at = exchange->evidence.finished_at;
}

static void
pause_provider(const Exchange *exchange)
{
	const char *note =
		psprintf("%s, seen by \"%s\"%s%s", exchange->judgement.reason, exchange->op_id,
				 exchange->evidence.error[0] ? ": " : "", exchange->evidence.error);

	if (ledger_pause(exchange->provider, note))
		ereport(WARNING,
				(errmsg("provider \"%s\" is paused: %s", exchange->provider, note),
				 errhint("Repair the cause, then call op_provider_resume('%s').",
						 exchange->provider)));
}

static void
settle(Turn *t, Exchange *exchange, LedgerOperation *operation, const LedgerDue *due)
{
	const OplPromises *promises = &exchange->action->spec->promises;
	OplFinding         finding = finding_of(exchange, operation);
	OplDecision        decision;
	LedgerChange      *change;

	operation->op.not_after = exchange->not_after;
	decision = opl_decide(&operation->op, promises, &finding, t->now);
	add_attempt(t, exchange);
	t->settled[t->nsettled++] = exchange;
	if (decision.pause)
		pause_provider(exchange);
	if (finding.verdict == OPL_V_NOT_PROCESSED && finding.retry_at != OPL_NEVER)
		pace_hold(exchange->provider, finding.retry_at);
	if (!decision.moved && !decision.note_failed)
		return;
	change = add_change(t, operation, &decision);
	if (due)
		change->due = due->row;
	if (decision.moved)
		change->reason = reason_of(&exchange->judgement, &decision);
	change->external_id = decision.take_object ? exchange->judgement.external_id : NULL;
	change->failed_id = decision.note_failed ? exchange->judgement.external_id : NULL;
}

/* Answers whose rows a session holds stay in hand, and are tried next turn. */
static void
settle_answers(Turn *t)
{
	for (int i = 0; i < t->nanswers; i++)
	{
		Exchange        *exchange = t->answers[i];
		LedgerOperation *operation = operation_of(t, exchange->op_id);
		LedgerDue       *due;

		if (!operation)
			continue;
		due = find(t->held, t->nheld, sizeof(LedgerDue), exchange->op_id);
		if (!due && find(t->absent, t->nabsent, sizeof(char *), exchange->op_id))
			continue;
		settle(t, exchange, operation, due);
	}
}

/* ------------------------------------------------------------------ claiming */

static void
add_lost(Turn *t, const LedgerOperation *operation)
{
	LedgerAttempt *attempt = &t->attempts[t->nattempts++];

	attempt->op_id = operation->op_id;
	attempt->n = operation->op.attempts;
	attempt->kind = "send";
	attempt->generation = operation->op.generation;
	attempt->verdict = opl_verdict_name(OPL_V_UNKNOWN);
	attempt->reason = "lost";
	attempt->started_at = operation->op.last_sent_at;
	attempt->finished_at = t->now;
}

/* Ours, and in hand: its deadline passed because a session holds the row. */
static void
put_off(Turn *t, const LedgerOperation *operation, const LedgerDue *due)
{
	OplDecision   later = {.after = operation->op,
						   .step = due->step,
						   .due_at = t->now + PUT_OFF,
						   .moved = true};
	LedgerChange *change = add_change(t, operation, &later);

	change->claimed = true;
	change->due = due->row;
}

static void
claim(Turn *t, const LedgerDue *due, LedgerOperation *operation)
{
	LedgerRequest *request =
		find(t->requests, t->nrequests, sizeof(LedgerRequest), due->op_id);
	Action       *action = action_get(operation->action);
	OplDecision   decision;
	OplClaim      what;
	LedgerChange *change;

	if (!request)
		ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
						errmsg("operation \"%s\" has no request of generation %d",
							   operation->op_id, operation->op.generation)));
	operation->op.not_after = request->not_after;
	what =
		opl_claim(&operation->op, &action->spec->promises, due->step, t->now, &decision);
	if (operation->op.state == OPL_SUBMITTED)
		add_lost(t, operation);
	change = add_change(t, operation, &decision);
	change->due = due->row;
	change->claimed = what != OPL_CLAIM_NOTHING;
	if (what == OPL_CLAIM_NOTHING)
		return;
	flight_prepare(operation, request, action,
				   what == OPL_CLAIM_SEND ? OPL_STEP_SEND : OPL_STEP_LOOKUP, &decision,
				   t->now);
	t->nclaimed++;
}

static bool
is_changed(const Turn *t, const char *op_id)
{
	for (int i = 0; i < t->nchanges; i++)
	{
		if (strcmp(t->changes[i].op_id, op_id) == 0)
			return true;
	}
	return false;
}

static void
claim_due(Turn *t)
{
	int nsettled = t->nchanges;

	load_requests(t);
	for (int i = 0; i < t->ndue; i++)
	{
		LedgerOperation *operation = operation_of(t, t->due[i].op_id);

		if (!operation || (nsettled > 0 && is_changed(t, operation->op_id)))
			continue;
		if (flight_has(operation->op_id, operation->op.attempts))
			put_off(t, operation, &t->due[i]);
		else
			claim(t, &t->due[i], operation);
	}
}

/* ------------------------------------------------------------------- nudges */

/* Somebody asked again: look sooner, but not sooner than `initial` after the
 * last look. */
static void
answer_nudge(Turn *t, const LedgerOperation *operation, const LedgerDue *due)
{
	Action     *action = action_get(operation->action);
	TimestampTz last = ledger_last_lookup(operation->op_id);
	TimestampTz due_at = t->now;
	OplDecision sooner = {.after = operation->op, .step = OPL_STEP_LOOKUP, .moved = true};

	if (operation->op.state != OPL_UNKNOWN && operation->op.state != OPL_REVIEW)
		return;
	if (operation->op.contradiction || !action->spec->promises.recipe)
		return;
	if (last != OPL_NEVER)
		due_at = Max(due_at, last + action->spec->promises.initial);
	if (due_at >= ledger_due_at(operation->op_id, false))
		return;
	sooner.due_at = due_at;
	add_change(t, operation, &sooner)->due = due->row;
}

static void
answer_nudges(Turn *t)
{
	int              n;
	int              nheld;
	int              count;
	char           **ids = ledger_take_nudges(&n);
	LedgerOperation *operations;
	LedgerDue       *held;

	if (n == 0)
		return;
	operations = ledger_lock_operations(ids, n, &count);
	held = ledger_lock_due(ids, n, &nheld);
	qsort(held, nheld, sizeof(LedgerDue), by_op_id);
	t->changes = repalloc(t->changes, sizeof(LedgerChange) * (t->nchanges + count + 1));
	memset(&t->changes[t->nchanges], 0, sizeof(LedgerChange) * (count + 1));
	for (int i = 0; i < count; i++)
	{
		const char *op_id = operations[i].op_id;
		LedgerDue  *due = find(held, nheld, sizeof(LedgerDue), op_id);

		if (due && !is_changed(t, op_id) && !flight_has(op_id, operations[i].op.attempts))
			answer_nudge(t, &operations[i], due);
	}
}

/* ------------------------------------------------------------------ the turn */

/* A copy of the ledger records, and does not send. Told once per reason. */
static bool
at_home(void)
{
	int         n;
	HomeRow    *homes = ledger_homes(&n);
	HomeRow     here = home_here(my_extension);
	const char *fault = home_fault(homes, n, &here);

	if (fault && fault != told_fault)
		ereport(WARNING,
				(errmsg("op_ledger sends nothing from database %u", MyDatabaseId),
				 errdetail("Because %s.", fault),
				 errhint("SELECT * FROM op_health() says what to do.")));
	told_fault = fault;
	return fault == NULL;
}

static void
write_changes(Turn *t)
{
	if (t->nchanges > 0)
	{
		ledger_save(t->changes, t->nchanges, t->now);
		ledger_plan(t->changes, t->nchanges, my_epoch);
	}
	if (t->nattempts > 0)
		ledger_record(t->attempts, t->nattempts);
}

/* When the agenda wants us next. */
static void
plan_next(Turn *t, bool claiming)
{
	TimestampTz next = t->now + TICK;

	if (t->nclaimed == 0 && t->nchanges > t->nsettled)
		next = t->now; /* places are free, and more may be due */
	else if (t->ndue > 0)
		next = t->now + AGAIN;
	else if (claiming && t->nplaces > 0)
	{
		TimestampTz due = ledger_next_due(t->places, t->nplaces, t->now);

		if (due != OPL_NEVER)
			next = Min(next, due);
	}
	next_turn_at = next;
}

static void
work(Turn *t, bool claiming, bool ticked)
{
	int limit = trouble_limit(SETTLE_MAX);

	t->nanswers = flight_answers(t->answers, limit, t->now);
	if (claiming && at_home() && (t->nanswers == 0 || limit > 1))
		take_due(t);
	items = t->nanswers + t->ndue;
	if (items == 1)
		strlcpy(suspect, t->nanswers ? t->answers[0]->op_id : t->due[0].op_id,
				sizeof(suspect));
	t->changes = palloc0(sizeof(LedgerChange) * (items + 1));
	t->attempts = palloc0(sizeof(LedgerAttempt) * (items + 1));
	if (items > 0)
	{
		lock_rows(t);
		settle_answers(t);
		claim_due(t);
	}
	if (ticked || wake_take_nudged())
		answer_nudges(t);
	write_changes(t);
	plan_next(t, claiming);
}

/* It makes turns fail by itself: a person must look, the others go on. */
static void
condemn(void)
{
	char            *op_id = pstrdup(condemned);
	char            *ids[] = {op_id};
	int              n;
	int              nheld;
	LedgerOperation *operation = ledger_lock_operations(ids, 1, &n);
	LedgerDue       *due;
	LedgerChange     change = {.op_id = op_id, .reason = "poisoned"};

	condemned[0] = '\0';
	items = 0;
	if (n == 0)
		return;
	due = ledger_lock_due(ids, 1, &nheld);
	change.row = operation->row;
	if (nheld > 0)
		change.due = due->row;
	change.decision.after = operation->op;
	change.decision.after.state = OPL_REVIEW;
	change.decision.after.tainted = true;
	change.decision.moved = true;
	ledger_save(&change, 1, GetCurrentTimestamp());
	ledger_plan(&change, 1, my_epoch);
	ledger_event(op_id, "op_ledger", "review", last_failure);
	ereport(WARNING,
			(errmsg("operation \"%s\" is handed to a person: %s", op_id, last_failure)));
}

/* After the commit: what is marked goes out, what is stored is forgotten. */
static void
finish(Turn *t)
{
	bool        waiting = t->nsettled < t->nanswers;
	TimestampTz oldest;

	for (int i = 0; i < t->nsettled; i++)
		flight_settled(t->settled[i]);
	flight_depart();
	if (t->ended)
		wake_waiters();
	oldest = waiting ? flight_oldest_answer() : 0;
	wake_turned(flight_in_hand(), oldest);
	trouble_over();
	last_turn_at = GetCurrentTimestamp();
	turns++;
}

TurnResult
dispatch_turn(bool claiming)
{
	Turn      *t;
	Oid        schema;
	bool       ticked;
	TurnResult result = TURN_DONE;

	begin();
	t = palloc0(sizeof(Turn));
	t->now = GetCurrentTimestamp();
	ticked = t->now >= ticked_at + TICK || t->now < ticked_at;
	if (ticked)
		ticked_at = t->now;
	if (home_extension(&schema) != my_extension)
		result = TURN_NO_EXTENSION;
	else if ((ticked || wake_take_yield()) && ddl_waits())
		result = TURN_YIELD;
	else
	{
		ledger_begin(schema);
		if (condemned[0])
			condemn();
		else
			work(t, claiming, ticked);
		ledger_end();
	}
	commit();
	if (result == TURN_DONE)
		finish(t);
	MemoryContextReset(turn_context);
	return result;
}

/* ------------------------------------------------------------------- trouble */

void
dispatch_failed(int sqlstate, const char *message)
{
	const char *single = items == 1 ? suspect : NULL;

	flight_discard();
	MemoryContextReset(turn_context);
	strlcpy(last_failure, message, sizeof(last_failure));
	if (trouble_failed(sqlstate, single, items, GetCurrentTimestamp()))
		strlcpy(condemned, suspect, sizeof(condemned));
	if (sqlstate != ERRCODE_LOCK_NOT_AVAILABLE)
		wake_turn_failed(message);
	items = 0;
}

/* ------------------------------------------------------------ start and stop */

bool
dispatch_start(int64 *epoch)
{
	Oid schema;

	if (!turn_context)
		turn_context = AllocSetContextCreate(TopMemoryContext, "op_ledger turn",
											 ALLOCSET_DEFAULT_SIZES);
	begin();
	my_extension = home_extension(&schema);
	if (OidIsValid(my_extension))
	{
		ledger_begin(schema);
		my_epoch = ledger_new_epoch();
		ledger_recover(my_epoch, GetCurrentTimestamp());
		ledger_end();
	}
	commit();
	MemoryContextReset(turn_context);
	*epoch = my_epoch;
	return OidIsValid(my_extension);
}

static long
until(TimestampTz moment, TimestampTz now)
{
	return moment <= now ? 0 : (long) ((moment - now + MILLISECOND - 1) / MILLISECOND);
}

/* Answers wait for company as long as more are under way; a wake while turns
 * follow each other waits its turn. */
long
dispatch_wait(bool woken)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz at = woken ? last_turn_at + COMPANY : next_turn_at;
	int         answers = flight_answered();

	if (answers > 0 && (flight_on_wire() == 0 || answers * 2 >= flight_on_wire()))
		at = now;
	else if (answers > 0)
		at = Min(at, flight_oldest_answer() + COMPANY);
	if (now < last_turn_at)
		at = now; /* the clock went backwards */
	return until(Max(at, trouble_not_before()), now);
}

/* What a row that a session holds keeps from being settled, the next worker finds
 * by its epoch. */
void
dispatch_abandon(void)
{
	flight_abandon();
	dispatch_turn(false);
}
