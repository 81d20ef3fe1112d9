/*
 * tuples.h - rows by key, read, locked and written without a statement.
 *
 * A statement costs 10 to 30 µs before it touches its first row. What op_submit()
 * and every turn do is known beforehand: a row by its key, locked, written. So it
 * is done as replication applies changes: through the executor's own functions for
 * single rows. Triggers for each row, constraints and indexes see to their duty as
 * ever; triggers for each statement and rules do not.
 */
#ifndef OPL_TUPLES_H
#define OPL_TUPLES_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "nodes/lockoptions.h"
#include "storage/itemptr.h"

typedef struct ShapeColumn
{
	const char *name;
	Oid         type; /* fields are taken for what they should be */
} ShapeColumn;

/* A table, as the install script makes it. Upgrades may append columns. */
typedef struct Shape
{
	const char        *table;
	const char        *index; /* that rows are found by; NULL: the primary key */
	int                ncolumns;
	const ShapeColumn *columns;
	uint64             updated; /* what an update changes: bit n is column n */
	const char        *guard;   /* a trigger that would only repeat what the writer has
								   asked before; NULL: none */
} Shape;

typedef struct Tuples Tuples;

/* How a key's column compares. */
typedef enum TuplesIs
{
	TUPLES_TEXT,       /* = */
	TUPLES_INT,        /* = */
	TUPLES_FROM,       /* >= a moment */
	TUPLES_UNTIL,      /* <= a moment */
	TUPLES_LATER_THAN, /* > a moment */
} TuplesIs;

typedef struct TuplesKey
{
	int      column; /* of the index */
	TuplesIs is;
	Datum    value;
} TuplesKey;

#define TUPLES_KEYS 4

/* One command: it sees what was there when it began. The caller's own snapshot, or
 * what a statement would see that begins now. */
extern void tuples_begin(bool snapshot_of_caller);
extern void tuples_end(void);

/* In a command: a table. */
typedef enum TuplesTo
{
	TUPLES_TO_READ,
	TUPLES_TO_LOCK,
	TUPLES_TO_WRITE,
	TUPLES_TO_INSERT_FIRST /* and to look before; no other writing */
} TuplesTo;

extern Tuples *tuples_open(Oid schema, const Shape *shape, TuplesTo to);
extern void    tuples_close(Tuples *t);

/* Rows in the index's order, or in none. */
extern void tuples_find(Tuples *t, const TuplesKey *keys, int nkeys);
extern void tuples_all(Tuples *t);
extern bool tuples_next(Tuples *t);
/* The row whose first column, and key, is this text. */
extern bool tuples_find_text(Tuples *t, const char *key);
/* The same; it is likely still where it was. NULL: not known. */
extern bool tuples_find_from(Tuples *t, const ItemPointerData *was_at, const char *key);

/* Lock the present row, in its latest version. False: somebody has it, and
 * LockWaitSkip was said; or it is gone. It may not be what was looked for any more. */
typedef enum TuplesLock
{
	TUPLES_KEEP_KEY, /* as an UPDATE that leaves the key alone */
	TUPLES_ANY       /* as a DELETE */
} TuplesLock;

extern bool tuples_lock(Tuples *t, TuplesLock how, LockWaitPolicy wait);

/* The present row becomes the one at `row`, which we hold. */
extern void tuples_go(Tuples *t, const ItemPointerData *row);

/* A field of the present row, counted from 1. What is NULL is NULL, 0, false or
 * -infinity; what is read is in the current context. */
extern Datum       tuples_datum(Tuples *t, int column, bool *null);
extern char       *tuples_text(Tuples *t, int column);
extern int         tuples_int(Tuples *t, int column);
extern int64       tuples_bigint(Tuples *t, int column);
extern bool        tuples_bool(Tuples *t, int column);
extern TimestampTz tuples_time(Tuples *t, int column);
extern void       *tuples_varlena(Tuples *t, int column); /* detoasted */
extern char      **tuples_texts(Tuples *t, int column, int *count);
/* For a moment: points into the row. */
extern void            tuples_name(Tuples *t, int column, char *buffer, size_t size);
extern bool            tuples_is(Tuples *t, int column, const char *expected);
extern ItemPointerData tuples_row(Tuples *t);
extern TransactionId   tuples_xmin(Tuples *t);

/* The row to be written: empty but for defaults of columns that the shape does not
 * know, or a copy of the present one; and then filled in. */
extern void tuples_new(Tuples *t);
extern void tuples_copy(Tuples *t);
extern void tuples_set(Tuples *t, int column, Datum value, bool null);
extern void tuples_set_text(Tuples *t, int column, const char *text); /* NULL is NULL */
extern void tuples_set_int(Tuples *t, int column, int value);
extern void tuples_set_bool(Tuples *t, int column, bool value);
extern void tuples_set_time(Tuples *t, int column,
							TimestampTz at); /* -infinity is NULL */

/* A trigger that refuses the row is an error. */
extern void tuples_insert(Tuples *t);
/* False: there is a row with such a key. Waits for whoever is about to write one.
 * The caller has looked, and seen none. */
extern bool tuples_insert_first(Tuples *t);
/* The present row, which we hold; where it is now. */
extern ItemPointerData tuples_update(Tuples *t);
/* Does the row that was written say so? A trigger may have changed it. */
extern bool tuples_wrote(Tuples *t, int column, const char *expected);
extern void tuples_delete(Tuples *t);

#endif
