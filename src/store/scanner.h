/*
 * scanner.h - single rows: found by key, locked, read and written without a statement.
 *
 * A statement costs 10 to 30 µs before it touches its first row. What op_submit() and
 * every turn do is known beforehand: a row by its key, locked, written. So it is done
 * as logical replication applies changes: through the executor's functions for single
 * rows. Triggers for each row, constraints and indexes see to their duty as ever;
 * triggers for each statement and rules do not.
 *
 * A table's file describes it once, by a ScannerTable. Columns are found by their
 * names, so they may stand in another order (a dump), have others among them (the
 * user's), or have been dropped and added. Which attribute is which is asked once,
 * and again when the relation cache says that the table has changed.
 */
#ifndef OPL_SCANNER_H
#define OPL_SCANNER_H

#include "postgres.h"

#include "nodes/bitmapset.h"
#include "nodes/lockoptions.h"
#include "storage/itemptr.h"
#include "store/ledger.h"
#include "utils/relcache.h"

#define SCANNER_COLUMNS_MAX 32

/* Who updates a column: bits of acts, which each table's file names. */
#define SCANNER_FIXED 0     /* nobody: only an INSERT writes it */
#define SCANNER_DEFAULT 128 /* nor that: it has what the table's default says */

typedef struct ScannerColumn
{
	const char *name;
	Oid         type; /* fields are taken for what they should be */
	uint8       acts;
} ScannerColumn;

#define SCANNER_COLUMN(name, type, acts) {#name, type, acts},

/* What is known of a table as it is now; scanner.c fills it in. */
typedef struct ScannerMap
{
	struct ScannerMap *next;
	Oid                relid;       /* invalid: it has to be asked for again */
	bool               updates_key; /* an update of ours changes what is unique */
	Bitmapset         *others; /* attributes whose default an INSERT has to ask for */
	AttrNumber         attributes[SCANNER_COLUMNS_MAX];
} ScannerMap;

typedef struct ScannerTable
{
	const char          *name;
	int                  ncolumns;
	const ScannerColumn *columns; /* the first one begins the primary key */
	const char          *guard;   /* a trigger that would only repeat what the writer has
								   * asked before; NULL: none */
	ScannerMap *map;
} ScannerTable;

typedef struct Scanner Scanner;

/* ---- open and close
 * From scanner_open() to scanner_close() is one command: it sees what was there when it
 * began, what it reads goes to the ledger's memory, which is the current one meanwhile,
 * and what it wrote can be seen when it is over. */
typedef enum ScannerMode
{
	SCANNER_READ,
	SCANNER_LOCK,
	SCANNER_INSERT,       /* and DELETE */
	SCANNER_INSERT_FIRST, /* and to look before; no other writing */
} ScannerMode;

extern Scanner *scanner_open(const Ledger *ledger, const ScannerTable *table,
							 ScannerMode mode);
/* To write, and to update what these acts update. */
extern Scanner *scanner_open_update(const Ledger *ledger, const ScannerTable *table,
									uint8 acts);
/* Another table in the same command; it is closed before. */
extern Scanner *scanner_open_beside(Scanner *command, const ScannerTable *table,
									ScannerMode mode);
extern void     scanner_close(Scanner *s);

/* ---- find: rows in an index's order, or in none. */
typedef enum ScannerIs
{
	SCANNER_TEXT,       /* = */
	SCANNER_INT,        /* = */
	SCANNER_FROM,       /* >= a moment */
	SCANNER_UNTIL,      /* <= a moment */
	SCANNER_LATER_THAN, /* > a moment */
} ScannerIs;

/* The index's columns from the first on; the last one may have two bounds. */
typedef struct ScannerKey
{
	int       column;
	ScannerIs is;
	Datum     value;
} ScannerKey;

#define SCANNER_KEYS 4

/* Instead of the primary key; said before anything is looked for. */
extern void scanner_use_index(Scanner *s, const char *index);
extern void scanner_find(Scanner *s, const ScannerKey *keys, int nkeys);
extern void scanner_all(Scanner *s);
extern bool scanner_next(Scanner *s);
/* The row whose first column is this text. */
extern bool scanner_find_text(Scanner *s, const char *key);
/* The same; it is likely still where it was. NULL: not known. */
extern bool scanner_find_from(Scanner *s, const ItemPointerData *was_at, const char *key);
/* The present row becomes the one at `row`, which we hold. */
extern void scanner_go(Scanner *s, const ItemPointerData *row);

/* Lock the present row, in its latest version. False: somebody has it, and
 * LockWaitSkip was said; or it is gone. It may not be what was looked for any more. */
typedef enum ScannerLock
{
	SCANNER_KEEP_KEY, /* as an UPDATE that leaves the key alone */
	SCANNER_ANY       /* as a DELETE */
} ScannerLock;

extern bool scanner_lock(Scanner *s, ScannerLock how, LockWaitPolicy wait);

/* ---- read a field of the present row. What is NULL is NULL, 0, false or -infinity. */
extern Datum       scanner_datum(Scanner *s, int column, bool *null);
extern char       *scanner_text(Scanner *s, int column);
extern int         scanner_int(Scanner *s, int column);
extern int64       scanner_bigint(Scanner *s, int column);
extern bool        scanner_bool(Scanner *s, int column);
extern TimestampTz scanner_time(Scanner *s, int column);
extern void       *scanner_varlena(Scanner *s, int column); /* detoasted */
extern char      **scanner_texts(Scanner *s, int column, int *count);
/* Without a copy that lasts. */
extern void            scanner_name(Scanner *s, int column, char *buffer, size_t size);
extern bool            scanner_is(Scanner *s, int column, const char *expected);
extern ItemPointerData scanner_row(Scanner *s);
extern TransactionId   scanner_xmin(Scanner *s);

/* ---- write: a row is begun, filled in, and stored.
 * Begun empty, but for defaults of columns that are not ours; or as a copy of the
 * present one. */
extern void scanner_new(Scanner *s);
extern void scanner_copy(Scanner *s);
extern void scanner_set(Scanner *s, int column, Datum value, bool null);
extern void scanner_set_text(Scanner *s, int column, const char *text); /* NULL is NULL */
extern void scanner_set_int(Scanner *s, int column, int value);
extern void scanner_set_bool(Scanner *s, int column, bool value);
extern void scanner_set_time(Scanner *s, int column,
							 TimestampTz at); /* -infinity is NULL */

/* A trigger that refuses the row is an error. */
extern void scanner_insert(Scanner *s);
/* False: there is a row with such a key. Waits for whoever is about to write one.
 * The caller has looked, and seen none. */
extern bool scanner_insert_first(Scanner *s);
/* The present row, which we hold; where it is now. */
extern ItemPointerData scanner_update(Scanner *s);
/* Does the row that was written say so? A trigger may have changed it. */
extern bool scanner_wrote(Scanner *s, int column, const char *expected);
extern void scanner_delete(Scanner *s);

/* ---- for a trigger: which attribute of its table is a column? */
extern AttrNumber scanner_attribute(const ScannerTable *table, Relation relation,
									int column);

#endif
