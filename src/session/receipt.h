/*
 * receipt.h - an operation as callers see it: op_receipt.
 */
#ifndef OPL_RECEIPT_H
#define OPL_RECEIPT_H

#include "postgres.h"

#include "access/htup.h"
#include "fmgr.h"
#include "store/operation.h"

/* Until a moment, at least 1. */
extern int seconds_until(TimestampTz moment);

/* A Datum of op_receipt, for a function that returns it. `due_at` is the next
 * step's moment or OPL_NEVER; `message` NULL: what is said of the state. */
extern Datum receipt_datum(FunctionCallInfo fcinfo, const LedgerOperation *operation,
						   bool is_new, TimestampTz due_at, const char *message);

/* What is said of a state. */
extern const char *receipt_message(const LedgerOperation *operation);

/* The op id that is a function's first argument. Raises OL006 when it is NULL. */
extern char *op_id_argument(FunctionCallInfo fcinfo);

/* Raises OL001. */
extern _Noreturn void no_such_operation(const char *op_id);

#endif
