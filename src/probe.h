/*
 * probe.h - a row by its key, without a statement.
 */
#ifndef OPL_PROBE_H
#define OPL_PROBE_H

#include "postgres.h"

/* A column that is wanted; filled by probe_row(), in the current context. */
typedef struct ProbeColumn
{
	const char *name;
	Datum       value;
	bool        null;
} ProbeColumn;

/* What a statement would see that began now: begin, look at rows, end. */
extern void probe_begin(void);
extern void probe_end(void);

/* The row of `table` whose primary key, one text column, is `key`. */
extern bool probe_row(Oid schema, const char *table, const char *key,
					  ProbeColumn *columns, int ncolumns);

#endif
