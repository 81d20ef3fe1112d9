/*
 * settle.c - answers -> what follows: evidence, verdict, decision.
 *
 * Locks op_operation, then op_due, both with SKIP LOCKED.
 */
#include "postgres.h"

#include "worker/settle.h"

#include "base/by_op_id.h"
#include "store/config.h"
#include "store/finding.h"
#include "worker/pace.h"

#define LOOKUP_HOLD_MAX (10 * OPL_MINUTE)

/* Every claim and every change of state fences what was under way. */
static bool
is_current(const Exchange *exchange, const LedgerOperation *operation)
{
	return operation->op.generation == exchange->generation &&
		   operation->op.attempts == exchange->n &&
		   operation->op.state == exchange->state;
}

static OplKind
kind_of(const Exchange *exchange, const LedgerOperation *operation)
{
	if (!is_current(exchange, operation))
		return OPL_KIND_LATE;
	return exchange->step == OPL_STEP_SEND ? OPL_KIND_SEND : OPL_KIND_LOOKUP;
}

/* When the provider wants to see us again, by the steady clock: it said how long. */
static int64
comes_back_at(const Exchange *exchange)
{
	return exchange->answered_at +
		   (exchange->judgement.retry_at - exchange->evidence.finished_at);
}

static OplFinding
finding_for(const Batch *batch, const Exchange *exchange,
			const LedgerOperation *operation)
{
	OplFinding finding = finding_of(batch->ledger, operation, &exchange->judgement,
									kind_of(exchange, operation), exchange->started_at);

	if (finding.retry_at != OPL_NEVER)
		finding.retry_at = batch->now + (comes_back_at(exchange) - batch->steady);
	if (exchange->generation != operation->op.generation)
		finding.same_generation = false;
	return finding;
}

/* What was fenced may have been written down by others: a sibling took it for lost, a
 * client reported it. */
static void
add_attempt(Batch *batch, const Exchange *exchange, bool fenced)
{
	LedgerAttempt *attempt = batch_attempt(batch, exchange->op_id);

	attempt->n = fenced ? attempt_free_number(batch->ledger, exchange->op_id, exchange->n)
						: exchange->n;
	attempt->kind = opl_step_name(exchange->step);
	attempt->generation = exchange->generation;
	attempt->verdict = opl_verdict_name(exchange->judgement.verdict);
	attempt->reason = exchange->judgement.reason;
	attempt->external_id = exchange->judgement.external_id;
	attempt->request_id = exchange->judgement.request_id;
	attempt->objects = exchange->judgement.objects;
	attempt->evidence = exchange->unseen ? NULL : &exchange->evidence;
	attempt->started_at = exchange->started_at;
	attempt->finished_at = exchange->evidence.finished_at;
	attempt->headers = exchange->headers;
	attempt->bodies = exchange->bodies;
	attempt->pages = exchange->search.pages;
}

static void
pause_provider(const Ledger *ledger, const Exchange *exchange)
{
	const char *note =
		psprintf("%s, seen by \"%s\"%s%s", exchange->judgement.reason, exchange->op_id,
				 exchange->evidence.error[0] ? ": " : "", exchange->evidence.error);

	if (config_pause(ledger, exchange->provider, note))
		ereport(WARNING,
				(errmsg("provider \"%s\" is paused: %s", exchange->provider, note),
				 errhint("Repair the cause, then call op_provider_resume('%s').",
						 exchange->provider)));
}

/* The provider does not let us ask: nothing is learned until a person repairs it. */
static bool
is_denied(const Exchange *exchange)
{
	int status = exchange->evidence.http_status;

	return status == 401 || status == 403 || status == 407 ||
		   strcmp(exchange->judgement.reason, "secret") == 0;
}

/* Said now and then only: every lookup meets the same. */
static void
alarm(const Exchange *exchange)
{
	if (!pace_complains(exchange->provider))
		return;
	ereport(WARNING,
			(errmsg("lookups of provider \"%s\" are refused: %s, seen by \"%s\"",
					exchange->provider, exchange->judgement.reason, exchange->op_id),
			 errhint("Operations whose answer was lost stay unknown until the credential "
					 "is repaired.")));
}

/* Lookups are not put off for longer than their own back-off would. */
static int64
hold_until(const Exchange *exchange)
{
	int64 at = comes_back_at(exchange);

	if (exchange->step == OPL_STEP_LOOKUP)
		at = Min(at, exchange->answered_at + LOOKUP_HOLD_MAX);
	return at;
}

/* What the provider said about its pace, and about us. */
static void
heed(const Batch *batch, const Exchange *exchange, const OplDecision *decision)
{
	const Judgement *judgement = &exchange->judgement;
	bool             throttled =
		judgement->verdict == OPL_V_NOT_PROCESSED ||
		(exchange->step == OPL_STEP_LOOKUP && judgement->external_id == NULL);

	if (decision->pause)
		pause_provider(batch->ledger, exchange);
	if (throttled && judgement->retry_at != OPL_NEVER)
		pace_hold(exchange->provider, exchange->step, hold_until(exchange));
	if (exchange->step == OPL_STEP_LOOKUP && is_denied(exchange))
		alarm(exchange);
}

static void
settle(Batch *batch, Exchange *exchange, LedgerOperation *operation, const LedgerDue *due)
{
	OplPromises promises =
		finding_promises(exchange->action->spec, operation, &exchange->judgement);
	OplFinding    finding = finding_for(batch, exchange, operation);
	OplDecision   decision;
	LedgerChange *change;

	operation->op.not_after = exchange->not_after;
	decision = opl_decide(&operation->op, &promises, &finding, batch->clock);
	add_attempt(batch, exchange, !is_current(exchange, operation));
	batch->settled[batch->nsettled++] = exchange;
	heed(batch, exchange, &decision);
	if (!decision.moved && !decision.note_failed)
		return;
	change = batch_change(batch, operation, &decision);
	if (due)
		change->due = due->row;
	finding_apply(change, &exchange->judgement);
}

/* The locked rows of what has an answer, sorted. */
typedef struct Locked
{
	LedgerOperation *operations;
	int              noperations;
	LedgerDue       *due; /* the agenda's rows that we hold */
	int              ndue;
	char           **taken; /* operations whose row in the agenda somebody has */
	int              ntaken;
} Locked;

static LedgerOperation *
operation_of(const Locked *locked, const char *op_id)
{
	return by_op_id_find(locked->operations, locked->noperations, sizeof(LedgerOperation),
						 op_id);
}

static void
lock_agenda(Batch *batch, Locked *locked)
{
	char           **ids = palloc(sizeof(char *) * batch->nanswers);
	ItemPointerData *were_at = palloc(sizeof(ItemPointerData) * batch->nanswers);
	int              n = 0;

	for (int i = 0; i < batch->nanswers; i++)
	{
		if (!operation_of(locked, batch->answers[i]->op_id))
			continue;
		ids[n] = batch->answers[i]->op_id;
		were_at[n++] = batch->answers[i]->due;
	}
	if (n > 0)
		locked->due = agenda_lock(batch->ledger, ids, were_at, n, &locked->ndue);
	by_op_id_sort(locked->due, locked->ndue, sizeof(LedgerDue));
	if (locked->ndue < n)
		locked->taken = agenda_having(batch->ledger, ids, n, &locked->ntaken);
	by_op_id_sort(locked->taken, locked->ntaken, sizeof(char *));
}

static void
lock_rows(Batch *batch, Locked *locked)
{
	char           **ids = palloc(sizeof(char *) * batch->nanswers);
	ItemPointerData *were_at = palloc(sizeof(ItemPointerData) * batch->nanswers);

	for (int i = 0; i < batch->nanswers; i++)
	{
		ids[i] = batch->answers[i]->op_id;
		were_at[i] = batch->answers[i]->row;
	}
	locked->operations = operation_lock_free(batch->ledger, ids, were_at, batch->nanswers,
											 &locked->noperations);
	by_op_id_sort(locked->operations, locked->noperations, sizeof(LedgerOperation));
	lock_agenda(batch, locked);
}

void
settle_answers(Batch *batch)
{
	Locked locked = {0};

	if (batch->nanswers == 0)
		return;
	lock_rows(batch, &locked);
	batch_look_at_clock(batch);
	for (int i = 0; i < batch->nanswers; i++)
	{
		Exchange        *exchange = batch->answers[i];
		LedgerOperation *operation = operation_of(&locked, exchange->op_id);
		LedgerDue       *due =
			by_op_id_find(locked.due, locked.ndue, sizeof(LedgerDue), exchange->op_id);
		bool taken = !due && by_op_id_find(locked.taken, locked.ntaken, sizeof(char *),
										   exchange->op_id);

		if (operation && !taken)
			settle(batch, exchange, operation, due);
		else
			flight_keep(exchange, batch->steady);
	}
}
