/*
 * rows.h - statements run, and their rows read.
 */
#ifndef OPL_ROWS_H
#define OPL_ROWS_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "store/statements.h"

/* Around everything below, inside a transaction. */
extern void rows_begin(Oid schema);
extern void rows_end(void);

/* Whatever runs a trigger of the user's may come back here, even by an error that
 * the trigger catches: it keeps the state and goes back to it. */
typedef struct RowsState
{
	MemoryContext context;
	bool          connected;
} RowsState;

extern RowsState rows_state(void);
extern void      rows_back_to(RowsState state);

/* Run a statement; the number of its rows, which rows_done() forgets. */
extern uint64 rows_run(StatementId id, Datum *values, const char *nulls);
extern void   rows_done(void);

/* The next rows of a cursor; it is opened when there is none, and closed at its end. */
extern int rows_fetch(StatementId id, const char *name, int max, MemoryContext context);

extern Oid           rows_schema(void);
extern MemoryContext rows_context(void);      /* where what is read goes */
extern void         *rows_alloc(size_t size); /* there, zeroed */
extern char        **rows_texts(int *count);  /* the first column of all, then done */
extern TimestampTz   rows_time(uint64 rows);  /* the first field, then done */

/* A field. What is NULL is NULL, 0, false or -infinity. */
extern Datum       row_datum(uint64 row, int column, bool *null);
extern char       *row_text(uint64 row, int column);
extern int         row_int(uint64 row, int column);
extern int64       row_bigint(uint64 row, int column);
extern bool        row_bool(uint64 row, int column);
extern TimestampTz row_time(uint64 row, int column);
extern void       *row_varlena(uint64 row, int column); /* detoasted */

/* Sort structs that start with their op_id, and find one. */
extern void  rows_sort(void *rows, int n, size_t size);
extern void *rows_find(void *rows, int n, size_t size, const char *op_id);

/* As the caller, with transactions of its own: a statement with %s for the schema
 * that answers one composite value. */
extern void  rows_begin_nonatomic(Oid schema);
extern void  rows_commit(void);
extern Datum rows_call(const char *format, int nargs, Oid *types, Datum *values,
					   const char *nulls);

#endif
