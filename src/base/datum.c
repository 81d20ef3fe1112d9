/*
 * datum.c - C values as values of SQL, and back.
 */
#include "postgres.h"

#include "base/datum.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"

Datum
datum_texts(char **texts, int n)
{
	Datum *values = palloc(sizeof(Datum) * Max(n, 1));

	for (int i = 0; i < n; i++)
		values[i] = CStringGetTextDatum(texts[i]);
	return PointerGetDatum(construct_array(values, n, TEXTOID, -1, false, TYPALIGN_INT));
}

char **
datum_read_texts(Datum array, int *count)
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

Datum
datum_bytes(const char *data, size_t len)
{
	bytea *bytes = palloc(VARHDRSZ + len);

	SET_VARSIZE(bytes, VARHDRSZ + len);
	memcpy(VARDATA(bytes), data, len);
	return PointerGetDatum(bytes);
}
