/*
 * rows.c - statements run, and their rows read; the only file with SPI.
 *
 * Statements are prepared once per process. A result can be read until the next
 * statement; what is read is in the memory context of rows_begin().
 */
#include "postgres.h"

#include "store/rows.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

static SPIPlanPtr    plans[STMT_COUNT];
static Oid           plans_schema = InvalidOid;
static bool          plans_stale = true;
static bool          connected = false; /* to SPI, since rows_begin() */
static MemoryContext caller;            /* where results go */
static int           running = 0;       /* statements; triggers nest them */

/* ------------------------------------------------------------------- plans */

/* A schema was renamed, or the extension moved: names in the plans are old. */
static void
schema_changed(Datum arg, int cacheid, uint32 hashvalue)
{
	plans_stale = true;
}

/* One that fired the trigger that called us is still needed, and left alone. */
static void
forget_plans(void)
{
	for (int i = 0; i < STMT_COUNT; i++)
	{
		if (plans[i] && running == 0)
			SPI_freeplan(plans[i]);
		plans[i] = NULL;
	}
}

void
rows_begin(Oid schema)
{
	static bool watching = false;

	if (!watching)
	{
		CacheRegisterSyscacheCallback(NAMESPACEOID, schema_changed, (Datum) 0);
		watching = true;
	}
	caller = CurrentMemoryContext;
	connected = false;
	if (plans_stale || plans_schema != schema)
	{
		forget_plans();
		plans_schema = schema;
		plans_stale = false;
	}
}

/* Most of what op_submit() and a turn do needs no statement. */
static void
connect(void)
{
	if (connected)
		return;
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	connected = true;
}

void
rows_end(void)
{
	MemoryContext old = CurrentMemoryContext;

	if (connected)
		SPI_finish();
	connected = false;
	MemoryContextSwitchTo(old);
}

RowsState
rows_state(void)
{
	return (RowsState){caller, connected};
}

void
rows_back_to(RowsState state)
{
	caller = state.context;
	connected = state.connected;
}

static SPIPlanPtr
plan_of(StatementId id)
{
	const Statement *s = &statements[id];
	const char      *schema;
	StringInfoData   text;
	SPIPlanPtr       plan;

	if (plans[id])
		return plans[id];
	schema = quote_identifier(get_namespace_name(plans_schema));
	initStringInfo(&text);
	for (const char *c = s->text; *c; c++)
	{
		if (c[0] == '@' && c[1] == '.')
			appendStringInfoString(&text, schema);
		else
			appendStringInfoChar(&text, *c);
	}
	plan = SPI_prepare(text.data, s->nargs, (Oid *) s->args);
	if (!plan || SPI_keepplan(plan) != 0)
		elog(ERROR, "could not prepare \"%s\": %s", text.data,
			 SPI_result_code_string(SPI_result));
	plans[id] = plan;
	return plan;
}

static int
run(StatementId id, Datum *values, const char *nulls)
{
	SPIPlanPtr plan = plan_of(id);
	int        result;

	running++;
	PG_TRY();
	{
		result = SPI_execute_plan(plan, values, nulls, false, 0);
	}
	PG_FINALLY();
	{
		running--;
	}
	PG_END_TRY();
	return result;
}

/* The result is in SPI_tuptable until the next one. */
uint64
rows_run(StatementId id, Datum *values, const char *nulls)
{
	MemoryContext old = CurrentMemoryContext; /* SPI leaves its own */
	RowsState     mine;
	int           result;

	connect();
	mine = rows_state();
	result = run(id, values, nulls);
	rows_back_to(mine);
	MemoryContextSwitchTo(old);
	if (result < 0)
		elog(ERROR, "statement %d failed: %s", id, SPI_result_code_string(result));
	return SPI_processed;
}

void
rows_done(void)
{
	SPI_freetuptable(SPI_tuptable);
}

/* ----------------------------------------------------------------- results */

void *
rows_alloc(size_t size)
{
	return MemoryContextAllocZero(caller, Max(size, 1));
}

Datum
row_datum(uint64 row, int column, bool *null)
{
	return SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, column, null);
}

static char *
text_of(Datum datum)
{
	text *packed = DatumGetTextPP(datum);
	int   len = VARSIZE_ANY_EXHDR(packed);
	char *copy = MemoryContextAlloc(caller, len + 1);

	memcpy(copy, VARDATA_ANY(packed), len);
	copy[len] = '\0';
	return copy;
}

char *
row_text(uint64 row, int column)
{
	bool  null;
	Datum value = row_datum(row, column, &null);

	return null ? NULL : text_of(value);
}

int
row_int(uint64 row, int column)
{
	bool  null;
	Datum value = row_datum(row, column, &null);

	return null ? 0 : DatumGetInt32(value);
}

int64
row_bigint(uint64 row, int column)
{
	bool  null;
	Datum value = row_datum(row, column, &null);

	return null ? 0 : DatumGetInt64(value);
}

bool
row_bool(uint64 row, int column)
{
	bool  null;
	Datum value = row_datum(row, column, &null);

	return !null && DatumGetBool(value);
}

TimestampTz
row_time(uint64 row, int column)
{
	bool  null;
	Datum value = row_datum(row, column, &null);

	return null ? DT_NOBEGIN : DatumGetTimestampTz(value);
}

/* A varlena of any kind, detoasted; NULL when it is. */
void *
row_varlena(uint64 row, int column)
{
	bool          null;
	Datum         value = row_datum(row, column, &null);
	MemoryContext old;
	void         *copy = NULL;

	if (null)
		return NULL;
	old = MemoryContextSwitchTo(caller);
	copy = PG_DETOAST_DATUM_COPY(value);
	MemoryContextSwitchTo(old);
	return copy;
}

char **
rows_texts(int *count)
{
	char **texts = rows_alloc(sizeof(char *) * SPI_processed);

	*count = (int) SPI_processed;
	for (int i = 0; i < *count; i++)
		texts[i] = row_text(i, 1);
	rows_done();
	return texts;
}

TimestampTz
rows_time(uint64 rows)
{
	TimestampTz at = rows > 0 ? row_time(0, 1) : DT_NOBEGIN;

	rows_done();
	return at;
}

MemoryContext
rows_context(void)
{
	return caller;
}

Oid
rows_schema(void)
{
	return plans_schema;
}

/* ------------------------------------------------------------------ in order */

static int
by_op_id(const void *a, const void *b)
{
	return strcmp(*(char *const *) a, *(char *const *) b);
}

void
rows_sort(void *rows, int n, size_t size)
{
	if (n > 1)
		qsort(rows, n, size, by_op_id);
}

void *
rows_find(void *rows, int n, size_t size, const char *op_id)
{
	return n == 0 ? NULL : bsearch(&op_id, rows, n, size, by_op_id);
}

/* ------------------------------------------------------------------- cursors */

int
rows_fetch(StatementId id, const char *name, int max, MemoryContext context)
{
	MemoryContext old = CurrentMemoryContext;
	Portal        cursor;

	connect();
	cursor = SPI_cursor_find(name);
	caller = context;
	if (!cursor)
		cursor = SPI_cursor_open(name, plan_of(id), NULL, NULL, false);
	SPI_cursor_fetch(cursor, true, max);
	if (SPI_processed == 0)
		SPI_cursor_close(cursor);
	MemoryContextSwitchTo(old);
	return (int) SPI_processed;
}

/* ----------------------------------------- as the caller, transaction by transaction */

/* Names are qualified, since no search_path is pinned here. */
static Oid execute_schema = InvalidOid;

void
rows_begin_nonatomic(Oid schema)
{
	caller = CurrentMemoryContext;
	execute_schema = schema;
	if (SPI_connect_ext(SPI_OPT_NONATOMIC) != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	connected = true;
	MemoryContextSwitchTo(caller);
}

void
rows_commit(void)
{
	SPI_commit();
}

Datum
rows_call(const char *format, int nargs, Oid *types, Datum *values, const char *nulls)
{
	RowsState     mine = rows_state(); /* what is called comes back here */
	MemoryContext old = CurrentMemoryContext;
	const char   *schema = quote_identifier(get_namespace_name(execute_schema));
	int result = SPI_execute_with_args(psprintf(format, schema), nargs, types, values,
									   nulls, false, 0);

	rows_back_to(mine);
	MemoryContextSwitchTo(old);
	if (result < 0 || SPI_processed != 1)
		elog(ERROR, "could not call: %s", SPI_result_code_string(result));
	return PointerGetDatum(row_varlena(0, 1));
}
