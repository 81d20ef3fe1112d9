/*
 * spi.h - statements, for what is cold: configuration, adoption, and a procedure that
 * calls functions as its caller would.
 *
 * "@." stands for the extension's schema. A statement is parsed each time it runs, so
 * nothing is kept that a renamed schema or a trigger could make stale.
 */
#ifndef OPL_SPI_H
#define OPL_SPI_H

#include "postgres.h"

#include "store/ledger.h"

#define SPI_MAX_ARGS 8

typedef struct SpiStatement
{
	const char *text;
	int         nargs;
	Oid         types[SPI_MAX_ARGS];
} SpiStatement;

/* Run it; the number of its rows, which can be read until spi_done(). Nothing else of
 * the store is called meanwhile. `nulls` NULL: none is. */
extern uint64 spi_run(const Ledger *ledger, const SpiStatement *statement, Datum *values,
					  const char *nulls);
/* The next rows of a cursor that lasts as long as the transaction; it is opened when
 * there is none of this name, and closed at its end. */
extern uint64 spi_fetch(const Ledger *ledger, const SpiStatement *statement,
						const char *name, int max);
extern void   spi_done(void);

/* A field of a row, in the ledger's memory. What is NULL is NULL, 0, false or
 * -infinity. */
extern Datum       spi_datum(uint64 row, int column, bool *null);
extern char       *spi_text(const Ledger *ledger, uint64 row, int column);
extern int         spi_int(uint64 row, int column);
extern bool        spi_bool(uint64 row, int column);
extern TimestampTz spi_time(uint64 row, int column);
extern void       *spi_varlena(const Ledger *ledger, uint64 row, int column);

/* Between these two, transactions of a procedure's own: a statement that answers one
 * composite value, in the ledger's memory. No search_path is pinned here. */
extern void  spi_begin_nonatomic(void);
extern Datum spi_call(const Ledger *ledger, const SpiStatement *statement, Datum *values,
					  const char *nulls);
extern void  spi_commit(void);
extern void  spi_end_nonatomic(void);

#endif
