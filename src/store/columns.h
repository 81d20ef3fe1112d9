/*
 * columns.h - array parameters, filled row by row: a batch of rows becomes one
 * array per column, which a statement takes apart with unnest().
 */
#ifndef OPL_COLUMNS_H
#define OPL_COLUMNS_H

#include "postgres.h"

#include "datatype/timestamp.h"

typedef struct Column
{
	Oid    type; /* of an element */
	int    n;
	Datum *values;
	bool  *nulls;
} Column;

/* Columns of these array types, with room for `rows`. */
extern void columns_init(Column *columns, const Oid *array_types, int ncolumns, int rows);

/* The next row's value. NULL and -infinity are null. */
extern void put_text(Column *c, const char *text);
extern void put_bigint(Column *c, int64 value, bool null);
extern void put_bool(Column *c, bool value);
extern void put_time(Column *c, TimestampTz at);

extern Datum  column_array(const Column *c);
extern Datum  text_array(char **texts, int n);
extern char **texts_of(Datum array, int *count); /* a text[] without NULLs */
extern Datum  bytes_datum(const char *data, size_t len);

#endif
