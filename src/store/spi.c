/*
 * spi.c - statements, for what is cold; the only file with SPI.
 */
#include "postgres.h"

#include "store/spi.h"

#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

static char *
text_of(const Ledger *ledger, const SpiStatement *statement)
{
	const char    *schema = quote_identifier(get_namespace_name(ledger->schema));
	StringInfoData text;

	initStringInfo(&text);
	for (const char *c = statement->text; *c; c++)
	{
		if (c[0] == '@' && c[1] == '.')
			appendStringInfoString(&text, schema);
		else
			appendStringInfoChar(&text, *c);
	}
	return text.data;
}

static void
connect(int options)
{
	if (SPI_connect_ext(options) != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
}

static void
execute(const Ledger *ledger, const SpiStatement *statement, Datum *values,
		const char *nulls)
{
	char *text = text_of(ledger, statement);
	int   result = SPI_execute_with_args(text, statement->nargs, (Oid *) statement->types,
										 values, nulls, false, 0);

	if (result < 0)
		elog(ERROR, "\"%s\" failed: %s", text, SPI_result_code_string(result));
}

/* SPI leaves a context of its own as the current one, and spi_done() the one that was
 * current here. */
uint64
spi_run(const Ledger *ledger, const SpiStatement *statement, Datum *values,
		const char *nulls)
{
	connect(0);
	execute(ledger, statement, values, nulls);
	MemoryContextSwitchTo(ledger->memory);
	return SPI_processed;
}

uint64
spi_fetch(const Ledger *ledger, const SpiStatement *statement, const char *name, int max)
{
	Portal cursor;

	connect(0);
	cursor = SPI_cursor_find(name);
	if (!cursor)
		cursor =
			SPI_cursor_open_with_args(name, text_of(ledger, statement), statement->nargs,
									  (Oid *) statement->types, NULL, NULL, false, 0);
	SPI_cursor_fetch(cursor, true, max);
	if (SPI_processed == 0)
		SPI_cursor_close(cursor);
	MemoryContextSwitchTo(ledger->memory);
	return SPI_processed;
}

void
spi_done(void)
{
	SPI_finish();
}

/* ------------------------------------------------------------------- fields */

Datum
spi_datum(uint64 row, int column, bool *null)
{
	Assert(row < SPI_processed);
	return SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, column, null);
}

/* A varlena of any kind, detoasted; NULL when it is. */
void *
spi_varlena(const Ledger *ledger, uint64 row, int column)
{
	bool          null;
	Datum         value = spi_datum(row, column, &null);
	MemoryContext old;
	void         *copy = NULL;

	if (null)
		return NULL;
	old = MemoryContextSwitchTo(ledger->memory);
	copy = PG_DETOAST_DATUM_COPY(value);
	MemoryContextSwitchTo(old);
	return copy;
}

char *
spi_text(const Ledger *ledger, uint64 row, int column)
{
	text *value = spi_varlena(ledger, row, column);

	return value ? text_to_cstring(value) : NULL;
}

int
spi_int(uint64 row, int column)
{
	bool  null;
	Datum value = spi_datum(row, column, &null);

	return null ? 0 : DatumGetInt32(value);
}

bool
spi_bool(uint64 row, int column)
{
	bool  null;
	Datum value = spi_datum(row, column, &null);

	return !null && DatumGetBool(value);
}

TimestampTz
spi_time(uint64 row, int column)
{
	bool  null;
	Datum value = spi_datum(row, column, &null);

	return null ? DT_NOBEGIN : DatumGetTimestampTz(value);
}

/* ----------------------------------------- as the caller, transaction by transaction */

void
spi_begin_nonatomic(void)
{
	MemoryContext before = CurrentMemoryContext;

	connect(SPI_OPT_NONATOMIC);
	MemoryContextSwitchTo(before);
}

Datum
spi_call(const Ledger *ledger, const SpiStatement *statement, Datum *values,
		 const char *nulls)
{
	MemoryContext before = CurrentMemoryContext;

	execute(ledger, statement, values, nulls);
	MemoryContextSwitchTo(before);
	if (SPI_processed != 1)
		elog(ERROR, "\"%s\" gave no row", statement->text);
	return PointerGetDatum(spi_varlena(ledger, 0, 1));
}

void
spi_commit(void)
{
	SPI_commit();
}

void
spi_end_nonatomic(void)
{
	SPI_finish();
}
