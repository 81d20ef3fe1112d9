/*
 * agenda.c - op_due, the agenda, and op_nudge, the wishes to look sooner.
 *
 * op_due has one row for each operation that has a next step. It is the lease as well:
 * a claim moves due_at to the attempt's deadline and writes the epoch of the worker.
 *
 * The worker updates and deletes rows that it locked with SKIP LOCKED in an earlier
 * command: op_due before op_operation for a claim, after it for an answer. So it never
 * waits for a session. Sessions hold the operation's row, and delete and insert; they
 * never update, since SKIP LOCKED waits all the same while it follows a chain of
 * updates.
 *
 * op_nudge is inserted into by sessions without any lock, and emptied by the worker.
 */
#include "postgres.h"

#include "store/agenda.h"

#include "base/by_op_id.h"
#include "base/clock.h"
#include "catalog/pg_type.h"
#include "commands/sequence.h"
#include "store/scanner.h"
#include "store/spi.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#define PLANNED 1

#define DUE_COLUMNS(X)                  \
	X(op_id, TEXTOID, SCANNER_FIXED)    \
	X(provider, TEXTOID, SCANNER_FIXED) \
	X(step, TEXTOID, PLANNED)           \
	X(due_at, TIMESTAMPTZOID, PLANNED)  \
	X(epoch, INT8OID, PLANNED)

#define NUDGE_COLUMNS(X)             \
	X(op_id, TEXTOID, SCANNER_FIXED) \
	X(at, TIMESTAMPTZOID, SCANNER_FIXED)

enum
{
#define X(name, type, acts) Due_##name,
	DUE_COLUMNS(X)
#undef X
};

enum
{
#define X(name, type, acts) Nudge_##name,
	NUDGE_COLUMNS(X)
#undef X
};

static const ScannerColumn due_columns[] = {DUE_COLUMNS(SCANNER_COLUMN)};
static ScannerMap          due_map;
static const ScannerTable  due_table = {.name = "op_due",
										.ncolumns = lengthof(due_columns),
										.columns = due_columns,
										.map = &due_map};

static const ScannerColumn nudge_columns[] = {NUDGE_COLUMNS(SCANNER_COLUMN)};
static ScannerMap          nudge_map;
static const ScannerTable  nudge_table = {.name = "op_nudge",
										  .ncolumns = lengthof(nudge_columns),
										  .columns = nudge_columns,
										  .map = &nudge_map};

/* Provider, step, due_at. */
#define BY_TIME "op_due_next"

/* As a step: a send that the worker leaves to op_claim(). */
#define CLAIM_STEP "claim"

/* Nudges in one turn. */
#define NUDGES_MAX 1000

/* ------------------------------------------------------------------ reading */

static OplStep
read_step(Scanner *s)
{
	char    name[NAMEDATALEN];
	OplStep step;

	scanner_name(s, Due_step, name, sizeof(name));
	if (strcmp(name, CLAIM_STEP) == 0)
		return OPL_STEP_SEND;
	opl_step_parse(name, &step);
	return step;
}

static void
read_row(Scanner *s, LedgerDue *out)
{
	out->op_id = scanner_text(s, Due_op_id);
	out->provider = scanner_text(s, Due_provider);
	out->step = read_step(s);
	out->due_at = scanner_time(s, Due_due_at);
	out->row = scanner_row(s);
}

OplStep
agenda_step(const Ledger *ledger, const char *op_id, TimestampTz *due_at)
{
	Scanner *s = scanner_open(ledger, &due_table, SCANNER_READ);
	OplStep  step = OPL_STEP_NONE;

	*due_at = OPL_NEVER;
	if (scanner_find_text(s, op_id))
	{
		step = read_step(s);
		*due_at = scanner_time(s, Due_due_at);
	}
	scanner_close(s);
	return step;
}

TimestampTz
agenda_due_at(const Ledger *ledger, const char *op_id)
{
	TimestampTz due_at;

	(void) agenda_step(ledger, op_id, &due_at);
	return due_at;
}

char **
agenda_having(const Ledger *ledger, char **op_ids, int n, int *count)
{
	Scanner *s = scanner_open(ledger, &due_table, SCANNER_READ);
	char   **having = palloc(sizeof(char *) * Max(n, 1));

	*count = 0;
	for (int i = 0; i < n; i++)
	{
		if (scanner_find_text(s, op_ids[i]))
			having[(*count)++] = op_ids[i];
	}
	scanner_close(s);
	return having;
}

/* Rows of these places from a moment on, by time; `until` NULL: without end. */
static void
find_by_time(Scanner *s, const LedgerPlaces *places, ScannerIs is, TimestampTz from,
			 const TimestampTz *until)
{
	ScannerKey keys[] = {
		{Due_provider, SCANNER_TEXT, CStringGetTextDatum(places->provider)},
		{Due_step, SCANNER_TEXT, CStringGetTextDatum(opl_step_name(places->step))},
		{Due_due_at, is, TimestampTzGetDatum(from)},
		{Due_due_at, SCANNER_UNTIL, TimestampTzGetDatum(until ? *until : 0)}};

	scanner_find(s, keys, until ? 4 : 3);
}

TimestampTz
agenda_next(const Ledger *ledger, const LedgerPlaces *places, int nplaces,
			TimestampTz now)
{
	Scanner    *s = scanner_open(ledger, &due_table, SCANNER_READ);
	TimestampTz next = OPL_NEVER;

	scanner_use_index(s, BY_TIME);
	for (int i = 0; i < nplaces; i++)
	{
		find_by_time(s, &places[i], SCANNER_LATER_THAN, now, NULL);
		if (scanner_next(s) && (next == OPL_NEVER || scanner_time(s, Due_due_at) < next))
			next = scanner_time(s, Due_due_at);
	}
	scanner_close(s);
	return next;
}

/* --------------------------------------------------------------- the worker */

static bool
is_avoided(Scanner *s, char **avoided, int navoided)
{
	return navoided > 0 &&
		   by_op_id_find(avoided, navoided, sizeof(char *), scanner_text(s, Due_op_id));
}

/* The latest version of a row that was found may not be due any more: somebody was
 * faster. */
static bool
is_still_due(Scanner *s, const LedgerPlaces *places, TimestampTz now)
{
	return scanner_is(s, Due_provider, places->provider) &&
		   read_step(s) == places->step && scanner_time(s, Due_due_at) <= now;
}

static int
take(Scanner *s, const LedgerPlaces *places, int limit, char **avoided, int navoided,
	 TimestampTz now, LedgerDue *out)
{
	int n = 0;

	find_by_time(s, places, SCANNER_FROM, places->since, &now);
	while (n < limit && scanner_next(s))
	{
		if (!is_avoided(s, avoided, navoided) &&
			scanner_lock(s, SCANNER_ANY, LockWaitSkip) && is_still_due(s, places, now))
			read_row(s, &out[n++]);
	}
	return n;
}

LedgerDue *
agenda_take(const Ledger *ledger, const LedgerPlaces *places, int nplaces, int limit,
			char **avoided, int navoided, TimestampTz now, int *count)
{
	Scanner   *s = scanner_open(ledger, &due_table, SCANNER_LOCK);
	LedgerDue *due = palloc0(sizeof(LedgerDue) * limit);

	scanner_use_index(s, BY_TIME);
	*count = 0;
	for (int i = 0; i < nplaces; i++)
		*count += take(s, &places[i], Min(places[i].places, limit - *count), avoided,
					   navoided, now, &due[*count]);
	scanner_close(s);
	return due;
}

LedgerDue *
agenda_lock(const Ledger *ledger, char **op_ids, const ItemPointerData *were_at, int n,
			int *count)
{
	Scanner   *s = scanner_open(ledger, &due_table, SCANNER_LOCK);
	LedgerDue *due = palloc0(sizeof(LedgerDue) * Max(n, 1));

	*count = 0;
	for (int i = 0; i < n; i++)
	{
		if (scanner_find_from(s, were_at ? &were_at[i] : NULL, op_ids[i]) &&
			scanner_lock(s, SCANNER_ANY, LockWaitSkip))
			read_row(s, &due[(*count)++]);
	}
	scanner_close(s);
	return due;
}

int64
agenda_new_epoch(const Ledger *ledger)
{
	return nextval_internal(get_relname_relid("op_epoch", ledger->schema), true);
}

/* Does the present row say that a worker has it that is no more? */
static bool
is_left_behind(Scanner *s, int64 mine, const int64 *living, int n)
{
	bool  null;
	int64 epoch = DatumGetInt64(scanner_datum(s, Due_epoch, &null));

	if (null || epoch >= mine)
		return false;
	for (int i = 0; i < n; i++)
	{
		if (living[i] == epoch)
			return false;
	}
	return true;
}

/* ------------------------------------------------------------------ writing */

/* Epoch 0: nobody's. */
static void
set_step(Scanner *s, const char *step, TimestampTz due_at, int64 epoch)
{
	scanner_set_text(s, Due_step, step);
	scanner_set_time(s, Due_due_at, due_at);
	scanner_set(s, Due_epoch, Int64GetDatum(epoch), epoch == 0);
}

void
agenda_recover(const Ledger *ledger, int64 mine, const int64 *living, int n,
			   TimestampTz now)
{
	Scanner *s = scanner_open_update(ledger, &due_table, PLANNED);

	scanner_all(s);
	while (scanner_next(s))
	{
		if (!is_left_behind(s, mine, living, n) ||
			!scanner_lock(s, SCANNER_ANY, LockWaitSkip) ||
			!is_left_behind(s, mine, living, n))
			continue;
		scanner_copy(s);
		scanner_set_time(s, Due_due_at, Min(scanner_time(s, Due_due_at), now));
		scanner_set(s, Due_epoch, (Datum) 0, true);
		scanner_update(s);
	}
	scanner_close(s);
}

static void
plan(Scanner *s, LedgerChange *change, int64 epoch)
{
	const OplDecision *decision = &change->decision;
	const char *step = change->for_client ? CLAIM_STEP : opl_step_name(decision->step);
	bool        is_there = ItemPointerIsValid(&change->due);

	if (is_there)
		scanner_go(s, &change->due);
	if (decision->step == OPL_STEP_NONE)
	{
		if (is_there)
			scanner_delete(s);
	}
	else if (is_there)
	{
		Assert(scanner_is(s, Due_op_id, change->op_id));
		scanner_copy(s);
		set_step(s, step, decision->due_at, epoch);
		change->due = scanner_update(s);
	}
	else
	{
		scanner_new(s);
		scanner_set_text(s, Due_op_id, change->op_id);
		scanner_set_text(s, Due_provider, change->provider);
		set_step(s, step, decision->due_at, epoch);
		scanner_insert(s);
	}
}

void
agenda_plan(const Ledger *ledger, LedgerChange *changes, int n, int64 epoch)
{
	Scanner *s = scanner_open_update(ledger, &due_table, PLANNED);

	for (int i = 0; i < n; i++)
	{
		if (changes[i].decision.moved)
			plan(s, &changes[i], changes[i].claimed ? epoch : 0);
	}
	scanner_close(s);
}

void
agenda_remove(const Ledger *ledger, char **op_ids, int n)
{
	Scanner *s = scanner_open(ledger, &due_table, SCANNER_INSERT);

	for (int i = 0; i < n; i++)
	{
		if (scanner_find_text(s, op_ids[i]) &&
			scanner_lock(s, SCANNER_ANY, LockWaitBlock))
			scanner_delete(s);
	}
	scanner_close(s);
}

/* --------------------------------------------------------- steps of the clock */

/* Rows of op_due whose moment means another one now: op_id, due_at as it is, as it is
 * to be. The moments of users are no durations: nothing comes before its not_before. A
 * ticket that was given since the step is right as it is. */
static const SpiStatement set_back = {
	"SELECT d.op_id, d.due_at,"
	"       greatest(d.due_at + $1 * interval '1 microsecond', r.not_before)"
	"  FROM @.op_due AS d"
	"  JOIN @.op_operation AS o ON o.op_id = d.op_id"
	"  LEFT JOIN @.op_request AS r"
	"    ON r.op_id = o.op_id AND r.generation = o.generation"
	" WHERE d.due_at > $2"
	"   AND NOT (o.state = 'submitted' AND o.last_sent_at BETWEEN $3 AND $2)",
	3,
	{INT8OID, TIMESTAMPTZOID, TIMESTAMPTZOID}};

/* What comes due too early finds by itself what it has to wait for, but for attempts
 * that are under way. */
static const SpiStatement set_forward = {
	"SELECT d.op_id, d.due_at, d.due_at + $1 * interval '1 microsecond'"
	"  FROM @.op_due AS d"
	"  JOIN @.op_operation AS o ON o.op_id = d.op_id"
	" WHERE o.state = 'submitted' AND o.last_sent_at < $3"
	"   AND d.due_at > $2 - $1 * interval '1 microsecond'",
	3,
	{INT8OID, TIMESTAMPTZOID, TIMESTAMPTZOID}};

/* What was planned when the clock was ahead of now counts its duration from now. */
static const SpiStatement bring_forward = {
	"SELECT w.op_id, w.due_at,"
	"       greatest($1 + greatest(w.due_at - w.at, interval '0'), w.not_before)"
	"  FROM (SELECT d.op_id, d.due_at, r.not_before,"
	"               greatest(o.created_at, o.trying_since, o.last_sent_at,"
	"                        (SELECT max(a.finished_at) FROM @.op_attempt AS a"
	"                          WHERE a.op_id = o.op_id),"
	"                        (SELECT max(e.at) FROM @.op_event AS e"
	"                          WHERE e.op_id = o.op_id)) AS at"
	"          FROM @.op_due AS d"
	"          JOIN @.op_operation AS o ON o.op_id = d.op_id"
	"          LEFT JOIN @.op_request AS r"
	"            ON r.op_id = o.op_id AND r.generation = o.generation"
	"         WHERE d.due_at > $1) AS w"
	" WHERE w.at > $1",
	1,
	{TIMESTAMPTZOID}};

/* The rows that the statement names come at another moment; what somebody holds, or has
 * planned anew meanwhile, does not. */
static void
move(const Ledger *ledger, const SpiStatement *which, Datum *values)
{
	int          n = (int) spi_run(ledger, which, values, NULL);
	char       **op_ids = palloc(sizeof(char *) * Max(n, 1));
	TimestampTz *was_due = palloc(sizeof(TimestampTz) * Max(n, 1));
	TimestampTz *due_at = palloc(sizeof(TimestampTz) * Max(n, 1));
	Scanner     *s;

	for (int i = 0; i < n; i++)
	{
		op_ids[i] = spi_text(ledger, i, 1);
		was_due[i] = spi_time(i, 2);
		due_at[i] = spi_time(i, 3);
	}
	spi_done();
	s = scanner_open_update(ledger, &due_table, PLANNED);
	for (int i = 0; i < n; i++)
	{
		if (!scanner_find_text(s, op_ids[i]) ||
			!scanner_lock(s, SCANNER_ANY, LockWaitSkip) ||
			scanner_time(s, Due_due_at) != was_due[i])
			continue;
		scanner_copy(s);
		scanner_set_time(s, Due_due_at, due_at[i]);
		scanner_update(s);
	}
	scanner_close(s);
}

void
agenda_shift(const Ledger *ledger, int64 by, TimestampTz now, TimestampTz since)
{
	Datum values[] = {Int64GetDatum(by), TimestampTzGetDatum(now),
					  TimestampTzGetDatum(since)};

	move(ledger, by < 0 ? &set_back : &set_forward, values);
}

void
agenda_bring_forward(const Ledger *ledger, TimestampTz now)
{
	Datum values[] = {TimestampTzGetDatum(now)};

	move(ledger, &bring_forward, values);
}

/* ------------------------------------------------------------------- nudges */

void
agenda_nudge(const Ledger *ledger, const char *op_id)
{
	Scanner *s = scanner_open(ledger, &nudge_table, SCANNER_INSERT);

	scanner_new(s);
	scanner_set_text(s, Nudge_op_id, op_id);
	scanner_set_time(s, Nudge_at, clock_now());
	scanner_insert(s);
	scanner_close(s);
}

char **
agenda_take_nudges(const Ledger *ledger, int *count)
{
	Scanner *s = scanner_open(ledger, &nudge_table, SCANNER_INSERT);
	char   **op_ids = palloc(sizeof(char *) * NUDGES_MAX);
	int      taken = 0;

	scanner_all(s);
	while (taken < NUDGES_MAX && scanner_next(s))
	{
		if (!scanner_lock(s, SCANNER_ANY, LockWaitSkip))
			continue;
		op_ids[taken++] = scanner_text(s, Nudge_op_id);
		scanner_delete(s);
	}
	scanner_close(s);
	by_op_id_sort(op_ids, taken, sizeof(char *));
	*count = 0;
	for (int i = 0; i < taken; i++)
	{
		if (*count == 0 || strcmp(op_ids[i], op_ids[*count - 1]) != 0)
			op_ids[(*count)++] = op_ids[i];
	}
	return op_ids;
}
