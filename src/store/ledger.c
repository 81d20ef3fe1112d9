/*
 * ledger.c - the part of ledger.h that works by statements.
 *
 * Those of the worker lock with SKIP LOCKED before they write: it never waits for a
 * session.
 */
#include "postgres.h"

#include "store/ledger.h"

#include "catalog/pg_type.h"
#include "store/columns.h"
#include "store/rows.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

void
ledger_begin(Oid schema)
{
	rows_begin(schema);
}

void
ledger_end(void)
{
	rows_end();
}

/* ----------------------------------------------------------- configuration */

Jsonb *
ledger_spec(const char *action)
{
	Datum  values[] = {CStringGetTextDatum(action)};
	Jsonb *spec = NULL;

	if (rows_run(STMT_SPEC, values, NULL) > 0)
		spec = row_varlena(0, 1);
	rows_done();
	return spec;
}

char **
ledger_actions(int *count)
{
	rows_run(STMT_ACTIONS, NULL, NULL);
	return rows_texts(count);
}

char **
ledger_actions_of(const char *provider, int *count)
{
	Datum values[] = {CStringGetTextDatum(provider)};

	rows_run(STMT_ACTIONS_OF, values, NULL);
	return rows_texts(count);
}

char **
ledger_with_object(const char *external_id, int *count)
{
	Datum values[] = {CStringGetTextDatum(external_id)};

	rows_run(STMT_WITH_OBJECT, values, NULL);
	return rows_texts(count);
}

bool
ledger_has_event(const char *op_id, const char *event_id, int *n)
{
	Datum values[] = {CStringGetTextDatum(op_id), CStringGetTextDatum(event_id)};
	bool  known;

	rows_run(STMT_EVENTS, values, NULL);
	*n = row_int(0, 1);
	known = row_bool(0, 2);
	rows_done();
	return known;
}

int
ledger_concurrency(const char *provider)
{
	Datum values[] = {CStringGetTextDatum(provider)};
	int   concurrency = 0;

	if (rows_run(STMT_CONCURRENCY, values, NULL) > 0)
		concurrency = row_int(0, 1);
	rows_done();
	return concurrency;
}

LedgerProvider *
ledger_provider(const char *name)
{
	int             n;
	LedgerProvider *providers = ledger_providers(&n);

	for (int i = 0; i < n; i++)
	{
		if (strcmp(providers[i].name, name) == 0)
			return &providers[i];
	}
	return NULL;
}

/* ---------------------------------------------------------------- sessions */

void
ledger_nudge(const char *op_id)
{
	Datum values[] = {CStringGetTextDatum(op_id),
					  TimestampTzGetDatum(GetCurrentTimestamp())};

	rows_run(STMT_NUDGE, values, NULL);
}

void
ledger_off_agenda(const char *op_id)
{
	char *ids[] = {(char *) op_id};
	Datum values[] = {text_array(ids, 1)};

	rows_run(STMT_OFF_AGENDA, values, NULL);
}

void
ledger_event(const char *op_id, const char *actor, const char *event, const char *note)
{
	Datum values[] = {op_id ? CStringGetTextDatum(op_id) : (Datum) 0,
					  CStringGetTextDatum(actor), CStringGetTextDatum(event),
					  note ? CStringGetTextDatum(note) : (Datum) 0};
	char nulls[] = {op_id ? ' ' : 'n', ' ', ' ', note ? ' ' : 'n'};

	rows_run(STMT_EVENT, values, nulls);
}

static void
insert_generation(const LedgerOperation *before, int generation, const LedgerRequest *r)
{
	Datum values[] = {
		CStringGetTextDatum(before->op_id),  Int32GetDatum(before->op.generation),
		Int32GetDatum(generation),           (Datum) 0,
		CStringGetTextDatum(r->method),      CStringGetTextDatum(r->url),
		text_array(r->headers, r->nheaders), (Datum) 0};
	char nulls[] = "   n   n";

	if (r->key)
	{
		values[3] = CStringGetTextDatum(r->key);
		nulls[3] = ' ';
	}
	if (r->body)
	{
		values[7] = bytes_datum(r->body, r->body_len);
		nulls[7] = ' ';
	}
	if (rows_run(STMT_NEXT_REQUEST, values, nulls) != 1)
		elog(ERROR, "operation \"%s\" has no request to follow", before->op_id);
}

/* Beside ledger_save_one(): what it does not write. */
void
ledger_next_generation(const LedgerOperation *before, const OplDecision *decision,
					   const LedgerRequest *request)
{
	int   generation = decision->after.generation;
	Datum values[] = {CStringGetTextDatum(before->op_id), Int32GetDatum(generation),
					  BoolGetDatum(decision->after.adopted)};

	rows_run(STMT_NEXT_GENERATION, values, NULL);
	insert_generation(before, generation, request);
}

char *
ledger_held_digest(const char *op_id)
{
	Datum values[] = {CStringGetTextDatum(op_id)};
	char *digest = NULL;

	if (rows_run(STMT_HELD_DIGEST, values, NULL) > 0)
		digest = row_text(0, 1);
	rows_done();
	return digest;
}

/* -------------------------------------------------------------- the worker */

int64
ledger_new_epoch(void)
{
	int64 epoch;

	rows_run(STMT_EPOCH, NULL, NULL);
	epoch = row_bigint(0, 1);
	rows_done();
	return epoch;
}

void
ledger_recover(int64 mine, const int64 *living, int n, TimestampTz now)
{
	Datum  values[3];
	Column epochs;

	columns_init(&epochs, statements[STMT_RECOVER].args, 1, n);
	for (int i = 0; i < n; i++)
		put_bigint(&epochs, living[i], false);
	values[0] = column_array(&epochs);
	values[1] = TimestampTzGetDatum(now);
	values[2] = Int64GetDatum(mine);
	rows_run(STMT_RECOVER, values, NULL);
}

bool
ledger_pause(const char *provider, const char *note)
{
	Datum values[] = {CStringGetTextDatum(provider),
					  TimestampTzGetDatum(GetCurrentTimestamp()),
					  CStringGetTextDatum(note)};

	return rows_run(STMT_PAUSE, values, NULL) > 0;
}

char **
ledger_take_nudges(int *count)
{
	rows_run(STMT_TAKE_NUDGES, NULL, NULL);
	return rows_texts(count);
}

TimestampTz
ledger_last_lookup(const char *op_id)
{
	Datum values[] = {CStringGetTextDatum(op_id)};

	return rows_time(rows_run(STMT_LAST_LOOKUP, values, NULL));
}

/* -------------------------------------------------------- client executors */

void
ledger_lease(const char *op_id, TimestampTz until)
{
	Datum values[] = {CStringGetTextDatum(op_id), TimestampTzGetDatum(until)};

	rows_run(STMT_LEASE, values, NULL);
}

bool
ledger_attempt(const char *op_id, int n, char **kind, int *generation,
			   TimestampTz *started_at)
{
	Datum values[] = {CStringGetTextDatum(op_id), Int32GetDatum(n)};
	bool  found = rows_run(STMT_ATTEMPT, values, NULL) > 0;

	if (found)
	{
		*kind = row_text(0, 1);
		*generation = row_int(0, 2);
		*started_at = row_time(0, 3);
	}
	rows_done();
	return found;
}

int
ledger_next_late(const char *op_id)
{
	Datum values[] = {CStringGetTextDatum(op_id)};
	int   n;

	rows_run(STMT_NEXT_LATE, values, NULL);
	n = row_int(0, 1);
	rows_done();
	return n;
}

/* --------------------------------------------------------------- adoption */

void
ledger_lock_homes(void)
{
	rows_run(STMT_LOCK_HOMES, NULL, NULL);
}

void
ledger_settle_home(const HomeRow *here, const char *actor, TimestampTz now)
{
	Datum values[] = {Int64GetDatum((int64) here->system_identifier),
					  ObjectIdGetDatum(here->database),
					  ObjectIdGetDatum(here->extension),
					  Int32GetDatum((int32) here->timeline),
					  Int64GetDatum(here->control_inode),
					  TimestampTzGetDatum(now),
					  CStringGetTextDatum(actor)};

	rows_run(STMT_RETIRE_HOMES, values, NULL);
	rows_run(STMT_SETTLE_HOME, values, NULL);
	rows_run(STMT_EVENT_ID, NULL, NULL);
	rows_done();
}

/* The cursor's snapshot is older than what we write, so no row is met twice. */
LedgerOperation *
ledger_adopt_next(int max, MemoryContext context, int *count)
{
	LedgerOperation *operations;
	ItemPointerData *rows;
	bool             null;

	*count = rows_fetch(STMT_ADOPT_SCAN, "op_ledger adoption", max, context);
	if (*count == 0)
		return NULL;
	rows = rows_alloc(sizeof(ItemPointerData) * *count);
	for (int i = 0; i < *count; i++)
		rows[i] = *(ItemPointer) DatumGetPointer(row_datum(i, 1, &null));
	operations = ledger_operations_at(rows, *count);
	for (int i = 0; i < *count; i++)
		operations[i].op.not_after = row_time(i, 2);
	rows_done();
	return operations;
}

static void
adopt_operations(const LedgerChange *changes, int n)
{
	Column c[8];
	Datum  values[8];
	uint64 saved;

	columns_init(c, statements[STMT_ADOPT_SAVE].args, 8, n);
	for (int i = 0; i < n; i++)
	{
		const OplOperation *after = &changes[i].decision.after;

		put_text(&c[0], changes[i].op_id);
		put_text(&c[1], opl_state_name(after->state));
		put_bool(&c[2], after->tainted);
		put_bool(&c[3], after->adopted);
		put_time(&c[4], after->first_sent_at);
		put_time(&c[5], after->last_sent_at);
		put_text(&c[6], changes[i].reason);
		put_time(&c[7], changes[i].lease_until ? changes[i].lease_until : OPL_NEVER);
	}
	for (int i = 0; i < 8; i++)
		values[i] = column_array(&c[i]);
	saved = rows_run(STMT_ADOPT_SAVE, values, NULL);
	if (saved != n)
		elog(ERROR, "saved " UINT64_FORMAT " operations instead of %d", saved, n);
}

/* A row of the agenda that a copy brought along is replaced, never updated. What
 * has ended is in no agenda, and nothing happened to it. */
void
ledger_adopt_save(LedgerChange *changes, int n, const char *actor, const char *note)
{
	char **ids = palloc(sizeof(char *) * n);
	int    count = 0;
	Datum  values[3];
	char   nulls[] = {' ', ' ', note ? ' ' : 'n'};

	for (int i = 0; i < n; i++)
	{
		if (!opl_state_ended(changes[i].decision.after.state))
			ids[count++] = (char *) changes[i].op_id;
	}
	values[0] = text_array(ids, count);
	values[1] = CStringGetTextDatum(actor);
	values[2] = note ? CStringGetTextDatum(note) : (Datum) 0;
	adopt_operations(changes, n);
	rows_run(STMT_OFF_AGENDA, values, NULL);
	ledger_plan(changes, n, 0);
	rows_run(STMT_ADOPT_EVENTS, values, nulls);
}

/* --------------------------------------------------------------- op_execute */

/* Whoever calls the procedure needs no more rights than for op_submit() and
 * op_status(). */
void
ledger_begin_nonatomic(Oid schema)
{
	rows_begin_nonatomic(schema);
}

void
ledger_commit(void)
{
	rows_commit();
}

Datum
ledger_call_submit(text *op_id, text *action, Jsonb *args)
{
	Oid   types[] = {TEXTOID, TEXTOID, JSONBOID};
	Datum values[] = {PointerGetDatum(op_id), PointerGetDatum(action),
					  PointerGetDatum(args)};
	char  nulls[] = {op_id ? ' ' : 'n', action ? ' ' : 'n', args ? ' ' : 'n'};

	return rows_call("SELECT %s.op_submit($1, $2, $3)", 3, types, values, nulls);
}

Datum
ledger_call_status(text *op_id)
{
	Oid   types[] = {TEXTOID};
	Datum values[] = {PointerGetDatum(op_id)};

	return rows_call("SELECT %s.op_status($1)", 1, types, values, NULL);
}
