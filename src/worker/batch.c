/*
 * batch.c - what one turn works on and what it will write.
 *
 * Decisions are collected here and written table by table, however many
 * they are. An operation is in a batch once.
 */
#include "postgres.h"

#include "worker/batch.h"

#include "base/by_op_id.h"
#include "store/finding.h"

Batch *
batch_new(const Ledger *ledger)
{
	Batch *batch = palloc0(sizeof(Batch));

	batch->ledger = ledger;
	batch->heeded = clock_read();
	batch_look_at_clock(batch);
	return batch;
}

void
batch_look_at_clock(Batch *batch)
{
	batch->clock = finding_clock(&batch->steady);
	batch->now = batch->clock.now;
}

int64
batch_steady(const Batch *batch, TimestampTz moment)
{
	return moment <= batch->now ? batch->steady : batch->steady + (moment - batch->now);
}

/* Room for one more of each. */
static void
make_room(Batch *b)
{
	if (b->nchanges < b->room && b->nattempts < b->room)
		return;
	b->room = Max(64, b->room * 2);
	b->changes = b->changes ? repalloc(b->changes, sizeof(LedgerChange) * b->room)
							: palloc(sizeof(LedgerChange) * b->room);
	b->attempts = b->attempts ? repalloc(b->attempts, sizeof(LedgerAttempt) * b->room)
							  : palloc(sizeof(LedgerAttempt) * b->room);
}

LedgerChange *
batch_change(Batch *batch, const LedgerOperation *operation, const OplDecision *decision)
{
	LedgerChange *change;
	OplState      state = decision->after.state;

	make_room(batch);
	change = &batch->changes[batch->nchanges++];
	memset(change, 0, sizeof(LedgerChange));
	change->op_id = operation->op_id;
	change->row = operation->row;
	change->provider = operation->provider;
	change->decision = *decision;
	change->reason = decision->reason ? decision->reason : operation->reason;
	if (decision->moved && (opl_state_ended(state) || state == OPL_REVIEW))
		batch->ended = true;
	return change;
}

LedgerAttempt *
batch_attempt(Batch *batch, const char *op_id)
{
	LedgerAttempt *attempt;

	make_room(batch);
	attempt = &batch->attempts[batch->nattempts++];
	memset(attempt, 0, sizeof(LedgerAttempt));
	attempt->op_id = op_id;
	return attempt;
}

char **
batch_changed(const Batch *batch, int *n)
{
	char **op_ids = palloc(sizeof(char *) * Max(batch->nchanges, 1));

	*n = batch->nchanges;
	for (int i = 0; i < batch->nchanges; i++)
		op_ids[i] = (char *) batch->changes[i].op_id;
	by_op_id_sort(op_ids, *n, sizeof(char *));
	return op_ids;
}

TimestampTz
batch_soonest(const Batch *batch)
{
	TimestampTz soonest = DT_NOEND;

	for (int i = 0; i < batch->nchanges; i++)
	{
		const OplDecision *decision = &batch->changes[i].decision;

		if (decision->moved && decision->step != OPL_STEP_NONE)
			soonest = Min(soonest, decision->due_at);
	}
	return soonest;
}

/* Its answer will look for its rows there. */
static void
note_places(Batch *batch)
{
	for (int i = 0; i < batch->nclaimed; i++)
	{
		const LedgerChange *change = &batch->changes[batch->claimed_by[i]];

		batch->claimed[i]->row = change->row;
		batch->claimed[i]->due = change->due;
	}
}

void
batch_write(Batch *batch, int64 epoch)
{
	if (batch->nchanges > 0)
	{
		operation_save(batch->ledger, batch->changes, batch->nchanges, batch->now);
		agenda_plan(batch->ledger, batch->changes, batch->nchanges, epoch);
		note_places(batch);
	}
	if (batch->nattempts > 0)
		attempt_insert(batch->ledger, batch->attempts, batch->nattempts);
}
