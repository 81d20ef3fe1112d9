/*
 * ledger.c - rows as structs.
 *
 * The worker's statements lock with SKIP LOCKED before they write: it never waits
 * for a session.
 */
#include "postgres.h"

#include "ledger.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "columns.h"
#include "miscadmin.h"
#include "probe.h"
#include "rows.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
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

static OplState
field_state(uint64 row, int column)
{
	char     name[NAMEDATALEN];
	OplState state;

	row_name(row, column, name, sizeof(name));
	if (!opl_state_parse(name, &state))
		elog(ERROR, "unknown state \"%s\"", name);
	return state;
}

static OplSeal
field_seal(uint64 row, int column)
{
	char    name[NAMEDATALEN];
	OplSeal seal;

	row_name(row, column, name, sizeof(name));
	opl_seal_parse(name, &seal);
	return seal;
}

/* In the agenda: a send that the worker leaves to op_claim(). */
#define CLAIM_STEP "claim"

static OplStep
field_step(uint64 row, int column)
{
	char    name[NAMEDATALEN];
	OplStep step;

	row_name(row, column, name, sizeof(name));
	if (strcmp(name, CLAIM_STEP) == 0)
		return OPL_STEP_SEND;
	opl_step_parse(name, &step);
	return step;
}

/* The columns of OPERATION_COLUMNS. */
#define OPERATION_NCOLUMNS 22
static void
read_operation(uint64 row, LedgerOperation *out)
{
	bool null;

	out->op_id = row_text(row, 1);
	out->action = row_text(row, 2);
	out->provider = row_text(row, 3);
	out->op.state = field_state(row, 4);
	out->op.tainted = row_bool(row, 5);
	out->op.sealed = field_seal(row, 6);
	out->op.contradiction = row_bool(row, 7);
	out->op.adopted = row_bool(row, 8);
	out->op.generation = row_int(row, 9);
	out->op.attempts = row_int(row, 10);
	out->op.tries = row_int(row, 11);
	out->op.trying_since = row_time(row, 12);
	out->op.first_sent_at = row_time(row, 13);
	out->op.last_sent_at = row_time(row, 14);
	out->op.not_after = OPL_NEVER;
	out->external_id = row_text(row, 15);
	out->failed_ids = row_texts(row, 16, &out->nfailed);
	out->reason = row_text(row, 17);
	out->args_hash = row_varlena(row, 18);
	out->created_at = row_time(row, 19);
	out->xmin = DatumGetTransactionId(row_datum(row, 20, &null));
	out->row = *(ItemPointer) DatumGetPointer(row_datum(row, 21, &null));
	out->lease_until = row_time(row, 22);
}

static void
read_request(uint64 row, LedgerRequest *out)
{
	bytea *body;

	out->op_id = row_text(row, 1);
	out->generation = row_int(row, 2);
	out->args = row_varlena(row, 3);
	out->method = row_text(row, 4);
	out->url = row_text(row, 5);
	out->headers = row_texts(row, 6, &out->nheaders);
	body = row_varlena(row, 7);
	out->body = body ? VARDATA(body) : NULL;
	out->body_len = body ? VARSIZE(body) - VARHDRSZ : 0;
	out->not_after = row_time(row, 8);
}

static LedgerOperation *
read_operations(int *count)
{
	LedgerOperation *operations = rows_alloc(sizeof(LedgerOperation) * rows_count());

	*count = rows_count();
	for (int i = 0; i < *count; i++)
		read_operation(i, &operations[i]);
	rows_done();
	return operations;
}

/* ----------------------------------------------------------- configuration */

/* The profile that a provider is of may be gone: then it says nothing. */
static int64
profile_version(const char *profile)
{
	ProbeColumn version = {"version"};

	return probe_row(rows_schema(), "op_profile", profile, &version, 1)
			   ? DatumGetInt64(version.value)
			   : 0;
}

static bool
probe_action(const char *action, char **provider, int64 *version, bool *paused)
{
	ProbeColumn a[] = {{"provider"}, {"version"}};
	ProbeColumn p[] = {{"profile"}, {"version"}, {"paused"}};

	if (!probe_row(rows_schema(), "op_action", action, a, lengthof(a)))
		return false;
	*provider = TextDatumGetCString(a[0].value);
	if (!probe_row(rows_schema(), "op_provider", *provider, p, lengthof(p)))
		return false;
	*version = DatumGetInt64(a[1].value) ^ DatumGetInt64(p[1].value) ^
			   profile_version(TextDatumGetCString(p[0].value));
	*paused = DatumGetBool(p[2].value);
	return true;
}

bool
ledger_action(const char *action, char **provider, int64 *version, bool *paused)
{
	MemoryContext old = MemoryContextSwitchTo(rows_context());
	bool          found;

	probe_begin();
	found = probe_action(action, provider, version, paused);
	probe_end();
	MemoryContextSwitchTo(old);
	return found;
}

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

LedgerProvider *
ledger_providers(int *count)
{
	LedgerProvider *providers;

	*count = (int) rows_run(STMT_PROVIDERS, NULL, NULL);
	providers = rows_alloc(sizeof(LedgerProvider) * *count);
	for (int i = 0; i < *count; i++)
	{
		providers[i].name = row_text(i, 1);
		providers[i].paused = row_bool(i, 2);
		providers[i].concurrency = row_int(i, 3);
	}
	rows_done();
	return providers;
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

static HomeRow *
read_homes(int *count)
{
	HomeRow *homes;
	bool     null;

	*count = (int) rows_run(STMT_HOMES, NULL, NULL);
	homes = rows_alloc(sizeof(HomeRow) * *count);
	for (int i = 0; i < *count; i++)
	{
		homes[i].system_identifier = (uint64) row_bigint(i, 1);
		homes[i].database = DatumGetObjectId(row_datum(i, 2, &null));
		homes[i].extension = DatumGetObjectId(row_datum(i, 3, &null));
		homes[i].timeline = (uint32) row_int(i, 4);
		homes[i].control_inode = row_bigint(i, 5);
		homes[i].retired = row_bool(i, 6);
	}
	rows_done();
	return homes;
}

HomeFault
ledger_home_fault(Oid extension)
{
	int      n;
	HomeRow *homes = read_homes(&n);
	HomeRow  here = home_here(extension);

	return home_fault(homes, n, &here);
}

/* ---------------------------------------------------------------- sessions */

bool
ledger_has(const char *op_id)
{
	bool has;

	probe_begin();
	has = probe_row(rows_schema(), "op_operation", op_id, NULL, 0);
	probe_end();
	return has;
}

bool
ledger_insert(const LedgerBirth *b)
{
	const char *step = opl_step_name(b->born.step);
	const char *optional[] = {b->run_id,       b->lane,       b->key,         b->step,
							  b->tool_call_id, b->dedupe_key, b->traceparent, step};
	static const int at[] = {5, 6, 10, 15, 16, 17, 18, 22};
	Datum            values[24] = {0};
	char             nulls[24];

	memset(nulls, ' ', sizeof(nulls));
	for (int i = 0; i < lengthof(at); i++)
	{
		if (optional[i])
			values[at[i]] = CStringGetTextDatum(optional[i]);
		else
			nulls[at[i]] = 'n';
	}
	values[0] = CStringGetTextDatum(b->op_id);
	values[1] = CStringGetTextDatum(b->action);
	values[2] = CStringGetTextDatum(b->provider);
	values[3] = CStringGetTextDatum(opl_state_name(b->born.after.state));
	values[4] = bytes_datum((const char *) b->args_hash, 32);
	values[7] = CStringGetTextDatum(b->submitted_by);
	values[8] = TimestampTzGetDatum(GetCurrentTimestamp());
	values[9] = JsonbPGetDatum(b->args);
	values[11] = CStringGetTextDatum(b->method);
	values[12] = CStringGetTextDatum(b->url);
	values[13] = text_array(b->headers, b->nheaders);
	if (b->body)
		values[14] = bytes_datum(b->body, b->body_len);
	nulls[14] = b->body ? ' ' : 'n';
	values[19] = b->not_before;
	nulls[19] = b->no_not_before ? 'n' : ' ';
	values[20] = b->not_after;
	nulls[20] = b->no_not_after ? 'n' : ' ';
	values[21] = b->cost;
	nulls[21] = b->no_cost ? 'n' : ' ';
	values[23] = TimestampTzGetDatum(b->born.due_at);
	nulls[23] = step ? ' ' : 'n';
	return rows_run(STMT_BIRTH, values, nulls) > 0;
}

static LedgerOperation *
read_one(StatementId id, const char *op_id, bool snapshot_of_caller)
{
	Datum            values[] = {CStringGetTextDatum(op_id)};
	LedgerOperation *operation;
	int              count;

	rows_run_as(id, values, NULL, snapshot_of_caller);
	operation = read_operations(&count);
	return count > 0 ? operation : NULL;
}

LedgerOperation *
ledger_read(const char *op_id, bool snapshot_of_caller)
{
	return read_one(STMT_READ, op_id, snapshot_of_caller);
}

LedgerOperation *
ledger_lock(const char *op_id)
{
	return read_one(STMT_LOCK, op_id, false);
}

TimestampTz
ledger_due_at(const char *op_id, bool snapshot_of_caller)
{
	Datum values[] = {CStringGetTextDatum(op_id)};

	return rows_time(rows_run_as(STMT_DUE_AT, values, NULL, snapshot_of_caller));
}

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

LedgerRequest *
ledger_request(const char *op_id, int generation)
{
	Datum          values[] = {CStringGetTextDatum(op_id), Int32GetDatum(generation)};
	LedgerRequest *request = NULL;

	if (rows_run(STMT_REQUEST, values, NULL) > 0)
	{
		request = rows_alloc(sizeof(LedgerRequest));
		read_request(0, request);
		request->key = row_text(0, 9);
		request->not_before = row_time(0, 10);
		request->traceparent = row_text(0, 11);
	}
	rows_done();
	return request;
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

OplStep
ledger_agenda(const char *op_id, TimestampTz *due_at)
{
	Datum   values[] = {CStringGetTextDatum(op_id)};
	OplStep step = OPL_STEP_NONE;

	*due_at = OPL_NEVER;
	if (rows_run(STMT_AGENDA, values, NULL) > 0)
	{
		step = field_step(0, 1);
		*due_at = row_time(0, 2);
	}
	rows_done();
	return step;
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

LedgerDue *
ledger_take_due(const LedgerPlaces *places, int nplaces, int limit, char **avoided,
				int navoided, TimestampTz now, int *count)
{
	Column     columns[4];
	Datum      values[7];
	LedgerDue *due;
	bool       null;

	columns_init(columns, statements[STMT_TAKE_DUE].args, 4, nplaces);
	for (int i = 0; i < nplaces; i++)
	{
		put_text(&columns[0], places[i].provider);
		put_text(&columns[1], opl_step_name(places[i].step));
		put_int(&columns[2], places[i].places);
		put_datum(&columns[3], TimestampTzGetDatum(places[i].since), false);
	}
	for (int i = 0; i < 4; i++)
		values[i] = column_array(&columns[i]);
	values[4] = TimestampTzGetDatum(now);
	values[5] = text_array(avoided, navoided);
	values[6] = Int64GetDatum(limit);
	*count = (int) rows_run(STMT_TAKE_DUE, values, NULL);
	due = rows_alloc(sizeof(LedgerDue) * *count);
	for (int i = 0; i < *count; i++)
	{
		due[i].op_id = row_text(i, 1);
		due[i].provider = row_text(i, 2);
		due[i].step = field_step(i, 3);
		due[i].row = *(ItemPointer) DatumGetPointer(row_datum(i, 4, &null));
		due[i].due_at = row_time(i, 5);
	}
	rows_done();
	return due;
}

TimestampTz
ledger_next_due(const LedgerPlaces *places, int nplaces, TimestampTz now)
{
	Column columns[2];

	columns_init(columns, statements[STMT_NEXT_DUE].args, 2, nplaces);
	for (int i = 0; i < nplaces; i++)
	{
		put_text(&columns[0], places[i].provider);
		put_text(&columns[1], opl_step_name(places[i].step));
	}
	return rows_time(
		rows_run_columns(STMT_NEXT_DUE, columns, 2, TimestampTzGetDatum(now)));
}

LedgerOperation *
ledger_lock_operations(char **op_ids, int n, int *count)
{
	Datum values[] = {text_array(op_ids, n)};

	rows_run(STMT_LOCK_OPERATIONS, values, NULL);
	return read_operations(count);
}

LedgerDue *
ledger_lock_due(char **op_ids, int n, int *count)
{
	Datum      values[] = {text_array(op_ids, n)};
	LedgerDue *due;
	bool       null;

	*count = (int) rows_run(STMT_LOCK_DUE, values, NULL);
	due = rows_alloc(sizeof(LedgerDue) * *count);
	for (int i = 0; i < *count; i++)
	{
		due[i].op_id = row_text(i, 1);
		due[i].row = *(ItemPointer) DatumGetPointer(row_datum(i, 2, &null));
	}
	rows_done();
	return due;
}

char **
ledger_have_due(char **op_ids, int n, int *count)
{
	Datum values[] = {text_array(op_ids, n)};

	rows_run(STMT_HAVE_DUE, values, NULL);
	return rows_texts(count);
}

LedgerRequest *
ledger_requests(char **op_ids, const int *generations, int n, int *count)
{
	Column         columns[2];
	LedgerRequest *requests;

	columns_init(columns, statements[STMT_REQUESTS].args, 2, n);
	for (int i = 0; i < n; i++)
	{
		put_text(&columns[0], op_ids[i]);
		put_int(&columns[1], generations[i]);
	}
	*count = (int) rows_run_columns(STMT_REQUESTS, columns, 2, (Datum) 0);
	requests = rows_alloc(sizeof(LedgerRequest) * *count);
	for (int i = 0; i < *count; i++)
		read_request(i, &requests[i]);
	rows_done();
	return requests;
}

static void
put_change(Column *c, const LedgerChange *change, TimestampTz now)
{
	const OplOperation *after = &change->decision.after;
	bool                sealed = after->sealed != OPL_SEAL_NONE;

	put_text(&c[0], change->op_id);
	put_text(&c[1], opl_state_name(after->state));
	put_bool(&c[2], after->tainted);
	put_text(&c[3], sealed ? opl_seal_name(after->sealed) : NULL);
	put_bool(&c[4], after->contradiction);
	put_int(&c[5], after->attempts);
	put_int(&c[6], after->tries);
	put_time(&c[7], after->trying_since);
	put_time(&c[8], after->first_sent_at);
	put_time(&c[9], after->last_sent_at);
	put_time(&c[10], opl_state_ended(after->state) ? now : OPL_NEVER);
	put_text(&c[11], change->reason);
	put_text(&c[12], change->external_id);
	put_text(&c[13], change->failed_id);
	put_tid(&c[14], &change->row);
}

static void
save(StatementId id, const LedgerChange *changes, int n, TimestampTz now)
{
	Column columns[15];
	uint64 saved;

	columns_init(columns, statements[id].args, 15, n);
	for (int i = 0; i < n; i++)
		put_change(columns, &changes[i], now);
	saved = rows_run_columns(id, columns, 15, (Datum) 0);
	if (saved != n)
		elog(ERROR, "saved " UINT64_FORMAT " operations instead of %d", saved, n);
}

void
ledger_save(const LedgerChange *changes, int n, TimestampTz now)
{
	save(STMT_SAVE, changes, n, now);
}

void
ledger_save_one(const LedgerChange *change, TimestampTz now)
{
	save(STMT_SAVE_ONE, change, 1, now);
}

static bool
has_due(const LedgerChange *change)
{
	return ItemPointerIsValid(&change->due);
}

/* What has no next step leaves the agenda. */
static void
plan_nothing(const LedgerChange *changes, int n)
{
	Column c[1];

	columns_init(c, statements[STMT_PLAN_NOTHING].args, 1, n);
	for (int i = 0; i < n; i++)
	{
		if (changes[i].decision.moved && changes[i].decision.step == OPL_STEP_NONE &&
			has_due(&changes[i]))
			put_tid(&c[0], &changes[i].due);
	}
	if (c[0].n > 0)
		rows_run_columns(STMT_PLAN_NOTHING, c, 1, (Datum) 0);
}

static const char *
step_of(const LedgerChange *change)
{
	return change->for_client ? CLAIM_STEP : opl_step_name(change->decision.step);
}

static void
plan_update(const LedgerChange *changes, int n, int64 epoch)
{
	Column c[4];

	columns_init(c, statements[STMT_PLAN_UPDATE].args, 4, n);
	for (int i = 0; i < n; i++)
	{
		if (!changes[i].decision.moved || changes[i].decision.step == OPL_STEP_NONE ||
			!has_due(&changes[i]))
			continue;
		put_tid(&c[0], &changes[i].due);
		put_text(&c[1], step_of(&changes[i]));
		put_time(&c[2], changes[i].decision.due_at);
		put_bigint(&c[3], epoch, !changes[i].claimed);
	}
	if (c[0].n > 0)
		rows_run_columns(STMT_PLAN_UPDATE, c, 4, (Datum) 0);
}

static void
plan_insert(const LedgerChange *changes, int n, int64 epoch)
{
	Column c[5];

	columns_init(c, statements[STMT_PLAN_INSERT].args, 5, n);
	for (int i = 0; i < n; i++)
	{
		if (!changes[i].decision.moved || changes[i].decision.step == OPL_STEP_NONE ||
			has_due(&changes[i]))
			continue;
		put_text(&c[0], changes[i].op_id);
		put_text(&c[1], changes[i].provider);
		put_text(&c[2], step_of(&changes[i]));
		put_time(&c[3], changes[i].decision.due_at);
		put_bigint(&c[4], epoch, !changes[i].claimed);
	}
	if (c[0].n > 0)
		rows_run_columns(STMT_PLAN_INSERT, c, 5, (Datum) 0);
}

void
ledger_plan(const LedgerChange *changes, int n, int64 epoch)
{
	plan_nothing(changes, n);
	plan_update(changes, n, epoch);
	plan_insert(changes, n, epoch);
}

void
ledger_defer(const LedgerDue *due, int n, TimestampTz due_at)
{
	Column c[1];

	columns_init(c, statements[STMT_DEFER].args, 1, n);
	for (int i = 0; i < n; i++)
		put_tid(&c[0], &due[i].row);
	rows_run_columns(STMT_DEFER, c, 1, TimestampTzGetDatum(due_at));
}

/* What was seen of the exchange; NULLs when its end was not seen. */
static void
put_evidence(Column *c, const Evidence *e)
{
	bool none = e == NULL;

	put_datum(&c[0], Int32GetDatum(none ? 0 : e->http_status),
			  none || e->http_status == 0);
	put_datum(&c[1], Int32GetDatum(none ? 0 : e->curl_code), none);
	put_bigint(&c[2], none ? 0 : e->bytes_sent, none || e->bytes_sent < 0);
	put_text(&c[3], none || e->peer[0] == '\0' ? NULL : e->peer);
	put_datum(&c[4], Int32GetDatum(none ? 0 : e->connect_us), none);
	put_datum(&c[5], Int32GetDatum(none ? 0 : e->first_byte_us), none);
	put_datum(&c[6], Int32GetDatum(none ? 0 : e->total_us), none);
	put_datum(&c[7], Int32GetDatum(none ? 0 : e->retry_after),
			  none || e->retry_after == 0);
}

/* Bytes, behind those of earlier pages. */
static void
put_behind(Column *c, StringInfo before, const char *data, size_t len)
{
	StringInfoData all;

	if (!before)
	{
		put_bytes(c, data, len);
		return;
	}
	initStringInfo(&all);
	appendBinaryStringInfo(&all, before->data, before->len);
	appendBinaryStringInfo(&all, data ? data : "", len);
	put_bytes(c, all.data, all.len);
	pfree(all.data);
}

static void
put_attempt(Column *c, const LedgerAttempt *a)
{
	const Evidence *e = a->evidence;

	put_text(&c[0], a->op_id);
	put_int(&c[1], a->n);
	put_text(&c[2], a->kind);
	put_int(&c[3], a->generation);
	put_time(&c[4], a->started_at);
	put_time(&c[5], a->finished_at);
	put_text(&c[6], a->verdict);
	put_text(&c[7], a->reason);
	put_text(&c[8], a->external_id);
	put_evidence(&c[9], e);
	put_text(&c[17], a->request_id);
	put_behind(&c[18], a->headers, e ? e->headers : NULL, e ? e->headers_len : 0);
	put_behind(&c[19], a->bodies, e ? e->body : NULL, e ? e->body_len : 0);
	put_text(&c[20], e && e->error[0] ? e->error : NULL);
	put_datum(&c[21], Int32GetDatum(a->pages), a->pages <= 1);
}

void
ledger_record(const LedgerAttempt *attempts, int n)
{
	Column columns[22];

	columns_init(columns, statements[STMT_RECORD].args, 22, n);
	for (int i = 0; i < n; i++)
		put_attempt(columns, &attempts[i]);
	rows_run_columns(STMT_RECORD, columns, 22, (Datum) 0);
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

	*count = rows_fetch(STMT_ADOPT_SCAN, "op_ledger adoption", max, context);
	if (*count == 0)
		return NULL;
	operations = rows_alloc(sizeof(LedgerOperation) * *count);
	for (int i = 0; i < *count; i++)
	{
		read_operation(i, &operations[i]);
		operations[i].op.not_after = row_time(i, OPERATION_NCOLUMNS + 1);
	}
	rows_done();
	return operations;
}

static void
adopt_operations(const LedgerChange *changes, int n)
{
	Column c[8];
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
	saved = rows_run_columns(STMT_ADOPT_SAVE, c, 8, (Datum) 0);
	if (saved != n)
		elog(ERROR, "saved " UINT64_FORMAT " operations instead of %d", saved, n);
}

/* A row of the agenda that a copy brought along is replaced, never updated. What
 * has ended is in no agenda, and nothing happened to it. */
void
ledger_adopt_save(const LedgerChange *changes, int n, const char *actor, const char *note)
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
