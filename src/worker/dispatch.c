/*
 * dispatch.c - one turn.
 *
 *	  claim    mark `submitted`, COMMIT synchronously    from here on it may have happened
 *	  send     no transaction is open while the network is
 *	  judge    evidence -> verdict -> decision           pure functions
 *	  settle   write attempt and new state, COMMIT       now we know, or know we don't
 *
 * Not marked = certainly never sent. Marked = may have taken effect, whatever
 * came back. A turn settles what came back and claims what may go out, in one
 * transaction with one commit; then it sends.
 *
 *  1. Nothing is handed to the wire before the commit that marks it returned,
 *     nor after a stop was asked for during that commit.
 *  2. Evidence is forgotten only after the commit that stores it.
 *  3. Rows are locked with SKIP LOCKED before they are written (claim.c, settle.c).
 *     So the worker never waits for a session.
 */
#include "postgres.h"

#include "worker/dispatch.h"

#include "base/clock.h"
#include "base/compat.h"
#include "access/xact.h"
#include "store/adopt.h"
#include "catalog/pg_database.h"
#include "catalog/pg_extension.h"
#include "worker/claim.h"
#include "base/by_op_id.h"
#include "store/finding.h"
#include "worker/flight.h"
#include "base/guc.h"
#include "store/home.h"
#include "store/event.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "worker/settle.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "worker/trouble.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "base/wake.h"

#define MILLISECOND INT64CONST(1000)

/* An answer waits at most this long for company. */
#define COMPANY (1 * MILLISECOND)

/* With nothing else to do, look at the agenda this often: prepared transactions
 * and waiting DDL tell nobody. */
#define TICK OPL_SECOND

/* After a claim, look again soon. */
#define AGAIN (20 * MILLISECOND)

void (*dispatch_committing)(bool) = NULL;

static MemoryContext turn_context = NULL;
static int64         my_epoch = 0;
static Oid           my_extension = InvalidOid;
/* By the steady clock; 0: never. */
static int64 next_turn_at = 0;
static int64 last_turn_at = 0;
static int64 ticked_at = 0;

/* What the agenda's moments mean: how far the clock was ahead of the steady one when
 * it was last put right, after so many steps; -1: it never was. */
static int64     agenda_offset = 0;
static int64     agenda_steps = -1;
static int       items = 0;       /* that the present turn works on */
static char      suspect[1024];   /* the only one of them, if there is one */
static char      condemned[1024]; /* goes to a person in the next turn */
static char      last_failure[256];
static HomeFault told_fault = HOME_OK;
static bool      failing_over = false; /* the next turn adopts, and no more */

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

/* On disk whatever synchronous_commit says; a stronger setting is kept. A stop that
 * comes while the commit waits for a standby ends the wait. */
static void
commit(void)
{
	PopActiveSnapshot();
	ForceSyncCommit();
	if (dispatch_committing)
		dispatch_committing(true);
	CommitTransactionCommand();
	if (dispatch_committing)
		dispatch_committing(false);
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

/* While we hold it, until the end of the transaction, our tables stay. False: a
 * DROP EXTENSION has it. */
static bool
hold_extension(void)
{
	LOCKTAG tag;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, ExtensionRelationId, my_extension, 0);
	return LockAcquire(&tag, AccessShareLock, false, true) != LOCKACQUIRE_NOT_AVAIL;
}

/* ------------------------------------------------------------------- nudges */

/* Somebody asked again: look sooner, if that is of use. */
static void
answer_nudge(Batch *batch, const LedgerOperation *operation, const LedgerDue *due)
{
	Action     *action = action_get(batch->ledger, operation->action);
	OplPromises promises = finding_promises(action->spec, operation, NULL);
	OplDecision sooner;

	if (opl_nudge(&operation->op, &promises,
				  attempt_last_lookup(batch->ledger, operation->op_id), due->due_at,
				  batch->clock, &sooner))
		batch_change(batch, operation, &sooner)->due = due->row;
}

static void
answer_nudges(Batch *batch)
{
	int              n;
	int              nheld;
	int              nchanged;
	int              count;
	char           **ids = agenda_take_nudges(batch->ledger, &n);
	char           **changed;
	LedgerOperation *operations;
	LedgerDue       *held;

	if (n == 0)
		return;
	changed = batch_changed(batch, &nchanged);
	operations = operation_lock_free(batch->ledger, ids, NULL, n, &count);
	held = agenda_lock(batch->ledger, ids, NULL, n, &nheld);
	by_op_id_sort(held, nheld, sizeof(LedgerDue));
	for (int i = 0; i < count; i++)
	{
		const char *op_id = operations[i].op_id;
		LedgerDue  *due = by_op_id_find(held, nheld, sizeof(LedgerDue), op_id);

		if (due && !by_op_id_find(changed, nchanged, sizeof(char *), op_id) &&
			!flight_has(op_id, operations[i].op.attempts))
			answer_nudge(batch, &operations[i], due);
	}
}

/* ----------------------------------------------------------------- the clock */

static const char *
step_words(const ClockReading *clock)
{
	return psprintf("the clock was set %s by %.3f s",
					clock->last_step < 0 ? "back" : "forward",
					Abs(clock->last_step) / (double) USECS_PER_SEC);
}

/* What the agenda calls "in two seconds" must not come in an hour, because the clock
 * was set back by one. One worker of the database sees to it: for each step it lives
 * through by its size, and at its start, when steps may have passed unseen, by what
 * is on record as later than now. */
static void
heed_steps(const Ledger *ledger, const ClockReading *clock)
{
	char *note;

	if (wake_number() != 0 || clock->steps == agenda_steps)
		return;
	if (agenda_steps >= 0)
		agenda_shift(ledger, clock->now - clock->steady - agenda_offset, clock->now,
					 clock->steady_since);
	else if (clock->steps > 0 || !clock->proven)
		agenda_bring_forward(ledger, clock->now);
	if (clock->steps == 0)
		return;
	note = psprintf("%s, and is %s now", step_words(clock),
					timestamptz_to_str(clock->stepped_at));
	event_insert_once(ledger, "op_ledger", "clock", note);
}

/* After the commit. */
static void
steps_heeded(const ClockReading *clock)
{
	agenda_steps = clock->steps;
	agenda_offset = clock->now - clock->steady;
	if (!clock_tells(clock->steps))
		return;
	ereport(WARNING,
			(errmsg("op_ledger: %s", step_words(clock)),
			 errdetail("It would have been %s, and is %s.",
					   pstrdup(timestamptz_to_str(clock->stepped_at - clock->last_step)),
					   pstrdup(timestamptz_to_str(clock->stepped_at))),
			 errhint("What was sent before is taken as sent at that moment; nothing that "
					 "was put off waits longer for it. Let the clock be slewed, not "
					 "set.")));
}

/* ------------------------------------------------------------------ the turn */

/* A copy of the ledger records, and does not send. Told once per reason. */
static bool
at_home(const Ledger *ledger)
{
	HomeFault fault = home_fault(ledger, my_extension);

	failing_over = fault == HOME_PROMOTED && opl_failover == FAILOVER_CONTINUE;
	if (fault != HOME_OK && fault != told_fault && !failing_over)
		ereport(WARNING,
				(errmsg("op_ledger sends nothing from database %u", MyDatabaseId),
				 errdetail("Because %s.", home_reason(fault)),
				 errhint("SELECT * FROM op_health() says what to do.")));
	told_fault = fault;
	return fault == HOME_OK;
}

/* For this transaction: a turn waits for nobody, but without adoption there is
 * nothing else to do; and it reads the whole table. */
static void
be_patient(void)
{
	set_config_option("lock_timeout", "1s", PGC_SUSET, PGC_S_SESSION, GUC_ACTION_LOCAL,
					  true, 0, false);
	set_config_option("enable_seqscan", "on", PGC_SUSET, PGC_S_SESSION, GUC_ACTION_LOCAL,
					  true, 0, false);
}

/* The administrator said that this node goes on after a promotion. */
static void
fail_over(const Ledger *ledger)
{
	Adoption adopted;

	failing_over = false;
	be_patient();
	home_lock(ledger);
	if (home_fault(ledger, my_extension) != HOME_PROMOTED)
		return; /* a person was faster */
	adopted =
		adopt(ledger, my_extension, true, "op_ledger", "op_ledger.failover = continue");
	ereport(LOG,
			(errmsg("op_ledger goes on from here after the promotion of this server"),
			 errdetail(INT64_FORMAT " operations are looked up, " INT64_FORMAT
									" are sent again under their keys, " INT64_FORMAT
									" wait for a person.",
					   adopted.lookups, adopted.sends, adopted.reviews)));
}

/* When the agenda wants us next: what this turn planned, and what was there. */
static void
plan_next(Batch *batch, bool claiming, bool answer_only)
{
	TimestampTz next = Min(batch->now + TICK, batch_soonest(batch));

	if (failing_over || answer_only)
		next = batch->now;
	else if (batch->nclaimed == 0 && batch->nchanges > batch->nsettled)
		next = batch->now; /* places are free, and more may be due */
	else if (batch->ndue > 0)
		next = Min(next, batch->now + AGAIN);
	else if (claiming)
	{
		TimestampTz due = claim_next(batch);

		if (due != OPL_NEVER)
			next = Min(next, due);
	}
	next_turn_at = batch_steady(batch, next);
}

static const char *
only_item(const Batch *batch)
{
	if (batch->nanswers + batch->ndue != 1)
		return "";
	return batch->nanswers ? batch->answers[0]->op_id : batch->due[0].op_id;
}

/* Judge and settle what came back, claim what may go out. */
static void
work(Batch *batch, bool claiming, bool ticked)
{
	int  limit = trouble_limit(SETTLE_MAX);
	bool answer_only; /* the turn takes one item, and that is an answer */

	items = batch->nanswers = flight_answers(batch->answers, limit, batch->steady);
	strlcpy(suspect, only_item(batch), sizeof(suspect));
	answer_only = limit == 1 && batch->nanswers > 0;
	settle_answers(batch);
	if (claiming && at_home(batch->ledger) && !answer_only)
		claim_take(batch, trouble_limit(CLAIM_MAX));
	items += batch->ndue;
	strlcpy(suspect, only_item(batch), sizeof(suspect));
	claim_due(batch);
	if (ticked || wake_take_nudged())
		answer_nudges(batch);
	batch_write(batch, my_epoch);
	plan_next(batch, claiming, answer_only);
}

/* It makes turns fail by itself: a person must look, the others go on. */
static void
condemn(const Ledger *ledger)
{
	char            *op_id = pstrdup(condemned);
	char            *ids[] = {op_id};
	int              n;
	int              nheld;
	LedgerOperation *operation = operation_lock_free(ledger, ids, NULL, 1, &n);
	LedgerDue       *due;
	LedgerChange     change = {.op_id = op_id};

	condemned[0] = '\0';
	items = 0;
	suspect[0] = '\0';
	if (n == 0 || !opl_condemn(&operation->op, clock_now(), &change.decision))
		return; /* held by a session, or in somebody's hands already */
	due = agenda_lock(ledger, ids, NULL, 1, &nheld);
	change.row = operation->row;
	change.reason = change.decision.reason;
	if (nheld > 0)
		change.due = due->row;
	operation_save(ledger, &change, 1, clock_now());
	agenda_plan(ledger, &change, 1, my_epoch);
	event_insert(ledger, op_id, "op_ledger", "review", last_failure);
	ereport(WARNING,
			(errmsg("operation \"%s\" is handed to a person: %s", op_id, last_failure)));
}

/* After the commit: what is marked goes out, what is stored is forgotten. */
static void
finish(Batch *batch)
{
	for (int i = 0; i < batch->nsettled; i++)
		flight_settled(batch->settled[i]);
	flight_depart(!ShutdownRequestPending);
	if (batch->ended)
		wake_waiters();
	wake_turned(flight_in_hand(), flight_oldest_kept());
	trouble_over();
	steps_heeded(&batch->heeded);
	last_turn_at = clock_steady();
}

TurnResult
dispatch_turn(bool claiming)
{
	TurnResult result = TURN_DONE;
	Ledger     ledger = {0};
	Batch     *batch;
	Oid        schema;
	bool       ticked;

	begin();
	batch = batch_new(&ledger);
	ticked = batch->steady >= ticked_at + TICK;
	if (ticked)
		ticked_at = batch->steady;
	if (!hold_extension())
		ereport(ERROR, (errcode(ERRCODE_LOCK_NOT_AVAILABLE),
						errmsg("extension op_ledger is being dropped")));
	if (home_extension(&schema) != my_extension)
		result = TURN_NO_EXTENSION;
	else if (claiming && (ticked || wake_take_yield()) && ddl_waits())
		result = TURN_YIELD;
	else
	{
		ledger = ledger_open(schema);
		heed_steps(&ledger, &batch->heeded);
		if (condemned[0])
			condemn(&ledger);
		else if (failing_over)
			fail_over(&ledger);
		else
			work(batch, claiming, ticked);
	}
	commit();
	if (result == TURN_DONE)
		finish(batch);
	MemoryContextReset(turn_context);
	return result;
}

/* ------------------------------------------------------------------- trouble */

void
dispatch_failed(int sqlstate, const char *message)
{
	const char *single = suspect[0] ? suspect : NULL;

	flight_discard();
	MemoryContextReset(turn_context);
	strlcpy(last_failure, message, sizeof(last_failure));
	if (trouble_failed(sqlstate, single, items, clock_steady()))
		strlcpy(condemned, suspect, sizeof(condemned));
	if (sqlstate != ERRCODE_LOCK_NOT_AVAILABLE)
		wake_turn_failed(message);
	items = 0;
}

/* ------------------------------------------------------------ start and stop */

TurnResult
dispatch_start(int64 *epoch)
{
	TurnResult result = TURN_DONE;
	Ledger     ledger;
	Oid        schema;
	int64     *living;
	int        n;

	if (!turn_context)
		turn_context = AllocSetContextCreate(TopMemoryContext, "op_ledger turn",
											 ALLOCSET_DEFAULT_SIZES);
	begin();
	my_extension = home_extension(&schema);
	if (!OidIsValid(my_extension))
		result = TURN_NO_EXTENSION;
	else if (!hold_extension())
		result = TURN_YIELD;
	else
	{
		ledger = ledger_open(schema);
		my_epoch = agenda_new_epoch(&ledger);
		living = wake_epochs(my_epoch, &n);
		if (living)
			agenda_recover(&ledger, my_epoch, living, n, clock_now());
	}
	commit();
	MemoryContextReset(turn_context);
	*epoch = my_epoch;
	return result;
}

static long
until(int64 moment, int64 now)
{
	return moment <= now ? 0 : (long) ((moment - now + MILLISECOND - 1) / MILLISECOND);
}

/* Answers wait for company as long as more are under way; a wake while turns
 * follow each other waits its turn. */
long
dispatch_wait(bool woken)
{
	int64 now = clock_steady();
	int64 at = woken ? last_turn_at + COMPANY : next_turn_at;
	int64 first;
	int   answers = flight_ready(now, &first);

	if (answers > 0 && (flight_on_wire() == 0 || answers * 2 >= flight_on_wire()))
		at = now;
	else if (answers > 0)
		at = Min(at, first + COMPANY);
	else
		at = Min(at, first);
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
