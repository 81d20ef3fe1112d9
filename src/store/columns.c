/*
 * columns.c - array parameters, filled row by row.
 */
#include "postgres.h"

#include "store/columns.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

void
columns_init(Column *columns, const Oid *array_types, int ncolumns, int rows)
{
	for (int i = 0; i < ncolumns; i++)
	{
		columns[i].type = get_element_type(array_types[i]);
		columns[i].n = 0;
		columns[i].values = palloc(sizeof(Datum) * rows);
		columns[i].nulls = palloc0(sizeof(bool) * rows);
	}
}

static void
put_datum(Column *c, Datum value, bool null)
{
	c->values[c->n] = value;
	c->nulls[c->n++] = null;
}

void
put_text(Column *c, const char *text)
{
	put_datum(c, text ? CStringGetTextDatum(text) : (Datum) 0, text == NULL);
}

void
put_bigint(Column *c, int64 value, bool null)
{
	put_datum(c, Int64GetDatum(value), null);
}

void
put_bool(Column *c, bool value)
{
	put_datum(c, BoolGetDatum(value), false);
}

void
put_time(Column *c, TimestampTz at)
{
	put_datum(c, TimestampTzGetDatum(at), at == DT_NOBEGIN);
}

Datum
bytes_datum(const char *data, size_t len)
{
	bytea *bytes = palloc(VARHDRSZ + len);

	SET_VARSIZE(bytes, VARHDRSZ + len);
	memcpy(VARDATA(bytes), data, len);
	return PointerGetDatum(bytes);
}

Datum
column_array(const Column *c)
{
	int   lower = 1;
	int   dim = c->n;
	int16 len;
	bool  byval;
	char  align;

	get_typlenbyvalalign(c->type, &len, &byval, &align);
	return PointerGetDatum(construct_md_array(c->values, c->nulls, 1, &dim, &lower,
											  c->type, len, byval, align));
}

Datum
text_array(char **texts, int n)
{
	Datum *values = palloc(sizeof(Datum) * Max(n, 1));

	for (int i = 0; i < n; i++)
		values[i] = CStringGetTextDatum(texts[i]);
	return PointerGetDatum(construct_array(values, n, TEXTOID, -1, false, TYPALIGN_INT));
}

char **
texts_of(Datum array, int *count)
{
	Datum *elements;
	char **texts;

	deconstruct_array(DatumGetArrayTypeP(array), TEXTOID, -1, false, TYPALIGN_INT,
					  &elements, NULL, count);
	texts = palloc(sizeof(char *) * Max(*count, 1));
	for (int i = 0; i < *count; i++)
		texts[i] = TextDatumGetCString(elements[i]);
	return texts;
}
