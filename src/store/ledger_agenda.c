/*
 * ledger_agenda.c - what is to be done next, row by row.
 *
 * A turn locks with SKIP LOCKED before it writes: it never waits for a session.
 */
#include "postgres.h"

#include "store/ledger.h"

#include "store/command.h"
#include "store/shapes.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

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

OplStep
ledger_agenda(const char *op_id, bool snapshot_of_caller, TimestampTz *due_at)
{
	Command command = command_begin_as(snapshot_of_caller);
	Tuples *t = command_open(&shape_agenda, TUPLES_TO_READ);
	OplStep step = OPL_STEP_NONE;

	*due_at = OPL_NEVER;
	if (tuples_find_text(t, op_id))
	{
		step = step_in(t);
		*due_at = tuples_time(t, D_DUE_AT);
	}
	tuples_close(t);
	command_end(&command);
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
is_among(Tuples *t, int column, char **sorted, int n)
{
	char *text = n > 0 ? tuples_text(t, column) : NULL;

	return text && rows_find(sorted, n, sizeof(char *), text);
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
	Command    command = command_begin();
	Tuples    *t = command_open(&shape_agenda_by_time, TUPLES_TO_LOCK);
	LedgerDue *due = palloc0(sizeof(LedgerDue) * limit);

	*count = 0;
	for (int i = 0; i < nplaces; i++)
		*count += take(t, &places[i], Min(places[i].places, limit - *count), avoided,
					   navoided, now, &due[*count]);
	tuples_close(t);
	command_end(&command);
	return due;
}

TimestampTz
ledger_next_due(const LedgerPlaces *places, int nplaces, TimestampTz now)
{
	Command     command = command_begin();
	Tuples     *t = command_open(&shape_agenda_by_time, TUPLES_TO_READ);
	TimestampTz next = OPL_NEVER;

	for (int i = 0; i < nplaces; i++)
	{
		look_from(t, &places[i], TUPLES_LATER_THAN, now, NULL);
		if (tuples_next(t) && (next == OPL_NEVER || tuples_time(t, D_DUE_AT) < next))
			next = tuples_time(t, D_DUE_AT);
	}
	tuples_close(t);
	command_end(&command);
	return next;
}

LedgerDue *
ledger_lock_due(char **op_ids, const ItemPointerData *were_at, int n, int *count)
{
	Command    command = command_begin();
	Tuples    *t = command_open(&shape_agenda, TUPLES_TO_LOCK);
	LedgerDue *due = palloc0(sizeof(LedgerDue) * n);

	*count = 0;
	for (int i = 0; i < n; i++)
	{
		if (tuples_find_from(t, were_at ? &were_at[i] : NULL, op_ids[i]) &&
			tuples_lock(t, TUPLES_ANY, LockWaitSkip))
			read_due(t, &due[(*count)++]);
	}
	tuples_close(t);
	command_end(&command);
	return due;
}

char **
ledger_have_due(char **op_ids, int n, int *count)
{
	Command command = command_begin();
	Tuples *t = command_open(&shape_agenda, TUPLES_TO_READ);
	char  **have = palloc(sizeof(char *) * n);

	*count = 0;
	for (int i = 0; i < n; i++)
	{
		if (tuples_find_text(t, op_ids[i]))
			have[(*count)++] = op_ids[i];
	}
	tuples_close(t);
	command_end(&command);
	return have;
}

static const char *
step_of(const LedgerChange *change)
{
	return change->for_client ? CLAIM_STEP : opl_step_name(change->decision.step);
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
	Command command = command_begin();
	Tuples *t = command_open(&shape_agenda, TUPLES_TO_WRITE);

	for (int i = 0; i < n; i++)
	{
		if (changes[i].decision.moved)
			plan(t, &changes[i], changes[i].claimed ? epoch : 0);
	}
	tuples_close(t);
	command_end(&command);
}
