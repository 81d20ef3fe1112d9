/*
 * settle.c - answers -> what follows: evidence, verdict, decision.
 *
 * Locks op_operation, then op_due, both with SKIP LOCKED.
 */
#include "postgres.h"

#include "settle.h"

#include "common/pg_prng.h"
#include "pace.h"

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
add_attempt(Batch *batch, const Exchange *exchange)
{
	LedgerAttempt *attempt = batch_attempt(batch, exchange->op_id);

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
settle(Batch *batch, Exchange *exchange, LedgerOperation *operation, const LedgerDue *due)
{
	const OplPromises *promises = &exchange->action->spec->promises;
	OplFinding         finding = finding_of(exchange, operation);
	OplDecision        decision;
	LedgerChange      *change;

	operation->op.not_after = exchange->not_after;
	decision = opl_decide(&operation->op, promises, &finding, batch->now);
	add_attempt(batch, exchange);
	batch->settled[batch->nsettled++] = exchange;
	if (decision.pause)
		pause_provider(exchange);
	if (finding.verdict == OPL_V_NOT_PROCESSED && finding.retry_at != OPL_NEVER)
		pace_hold(exchange->provider, finding.retry_at);
	if (!decision.moved && !decision.note_failed)
		return;
	change = batch_change(batch, operation, &decision);
	if (due)
		change->due = due->row;
	if (decision.moved)
		change->reason = reason_of(&exchange->judgement, &decision);
	change->external_id = decision.take_object ? exchange->judgement.external_id : NULL;
	change->failed_id = decision.note_failed ? exchange->judgement.external_id : NULL;
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
	return rows_find(locked->operations, locked->noperations, sizeof(LedgerOperation),
					 op_id);
}

static void
lock_agenda(Batch *batch, Locked *locked)
{
	char **ids = palloc(sizeof(char *) * batch->nanswers);
	int    n = 0;

	for (int i = 0; i < batch->nanswers; i++)
	{
		if (operation_of(locked, batch->answers[i]->op_id))
			ids[n++] = batch->answers[i]->op_id;
	}
	if (n > 0)
		locked->due = ledger_lock_due(ids, n, &locked->ndue);
	rows_sort(locked->due, locked->ndue, sizeof(LedgerDue));
	if (locked->ndue < n)
		locked->taken = ledger_have_due(ids, n, &locked->ntaken);
	rows_sort(locked->taken, locked->ntaken, sizeof(char *));
}

static void
lock_rows(Batch *batch, Locked *locked)
{
	char **ids = palloc(sizeof(char *) * batch->nanswers);

	for (int i = 0; i < batch->nanswers; i++)
		ids[i] = batch->answers[i]->op_id;
	locked->operations =
		ledger_lock_operations(ids, batch->nanswers, &locked->noperations);
	rows_sort(locked->operations, locked->noperations, sizeof(LedgerOperation));
	lock_agenda(batch, locked);
}

void
settle_answers(Batch *batch)
{
	Locked locked = {0};

	if (batch->nanswers == 0)
		return;
	lock_rows(batch, &locked);
	for (int i = 0; i < batch->nanswers; i++)
	{
		Exchange        *exchange = batch->answers[i];
		LedgerOperation *operation = operation_of(&locked, exchange->op_id);
		LedgerDue       *due =
			rows_find(locked.due, locked.ndue, sizeof(LedgerDue), exchange->op_id);
		bool taken = !due && rows_find(locked.taken, locked.ntaken, sizeof(char *),
									   exchange->op_id);

		if (operation && !taken)
			settle(batch, exchange, operation, due);
		else
			flight_keep(exchange, batch->now);
	}
}
