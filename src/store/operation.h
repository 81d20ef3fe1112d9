/*
 * operation.h - op_operation: one row per operation, for ever.
 */
#ifndef OPL_OPERATION_H
#define OPL_OPERATION_H

#include "postgres.h"

#include "store/request.h"
#include "store/scanner.h"

/* Who updates a column. */
#define OPERATION_SAVE 1    /* every decision */
#define OPERATION_LEASE 2   /* op_claim(), beside its decision */
#define OPERATION_REISSUE 4 /* op_reissue(), beside its decision */
#define OPERATION_ADOPT 8   /* op_adopt(), instead of one */

#define OPERATION_COLUMNS(X)                                           \
	X(op_id, TEXTOID, SCANNER_FIXED)                                   \
	X(action, TEXTOID, SCANNER_FIXED)                                  \
	X(provider, TEXTOID, SCANNER_FIXED)                                \
	X(state, TEXTOID, OPERATION_SAVE | OPERATION_ADOPT)                \
	X(tainted, BOOLOID, OPERATION_SAVE | OPERATION_ADOPT)              \
	X(sealed, TEXTOID, OPERATION_SAVE)                                 \
	X(contradiction, BOOLOID, OPERATION_SAVE)                          \
	X(adopted, BOOLOID, OPERATION_REISSUE | OPERATION_ADOPT)           \
	X(generation, INT4OID, OPERATION_REISSUE)                          \
	X(attempts, INT4OID, OPERATION_SAVE)                               \
	X(tries, INT4OID, OPERATION_SAVE)                                  \
	X(trying_since, TIMESTAMPTZOID, OPERATION_SAVE)                    \
	X(first_sent_at, TIMESTAMPTZOID, OPERATION_SAVE | OPERATION_ADOPT) \
	X(last_sent_at, TIMESTAMPTZOID, OPERATION_SAVE | OPERATION_ADOPT)  \
	X(lease_until, TIMESTAMPTZOID, OPERATION_LEASE | OPERATION_ADOPT)  \
	X(external_id, TEXTOID, OPERATION_SAVE | OPERATION_REISSUE)        \
	X(failed_ids, TEXTARRAYOID, OPERATION_SAVE)                        \
	X(reason, TEXTOID, OPERATION_SAVE | OPERATION_ADOPT)               \
	X(args_hash, BYTEAOID, SCANNER_FIXED)                              \
	X(run_id, TEXTOID, SCANNER_FIXED)                                  \
	X(lane, TEXTOID, SCANNER_FIXED)                                    \
	X(undoes, TEXTOID, SCANNER_FIXED)                                  \
	X(submitted_by, TEXTOID, SCANNER_FIXED)                            \
	X(created_at, TIMESTAMPTZOID, SCANNER_FIXED)                       \
	X(settled_at, TIMESTAMPTZOID, OPERATION_SAVE)                      \
	X(place, INT8OID, OPERATION_SAVE | OPERATION_ADOPT)

enum
{
#define X(name, type, acts) Operation_##name,
	OPERATION_COLUMNS(X)
#undef X
};

/* For the guard, which looks at rows that others write as well. */
extern const ScannerTable operation_table;

typedef struct LedgerOperation
{
	char           *op_id;
	char           *action;
	char           *provider;
	OplOperation    op; /* not_after is op_request's: the caller fills it in */
	char           *external_id;
	int             nfailed;
	char          **failed_ids;
	char           *reason;
	bytea          *args_hash;
	TimestampTz     created_at;
	TimestampTz     lease_until; /* OPL_NEVER: no client ever claimed it */
	TransactionId   xmin;        /* wrote this version */
	ItemPointerData row;         /* where it is, while we hold it */
} LedgerOperation;

/* ---- reading. NULL: there is none. */
extern LedgerOperation *operation_read(const Ledger *ledger, const char *op_id);
/* The rows at these places, which we hold. */
extern LedgerOperation *operation_read_at(const Ledger          *ledger,
										  const ItemPointerData *rows, int n);

/* ---- locking */
/* Of sessions: waits for the row. */
extern LedgerOperation *operation_lock(const Ledger *ledger, const char *op_id);
/* Of the worker: those that nobody else holds. Where they were is looked at first;
 * NULL: not known. */
extern LedgerOperation *operation_lock_free(const Ledger *ledger, char **op_ids,
											const ItemPointerData *were_at, int n,
											int *count);

/* ---- writing */
/* What is known already is in `there`. What is not is frozen, which fills in the rest
 * of the birth, and inserted together with its request. False, and nothing there:
 * somebody was faster. */
typedef void (*OperationFreeze)(LedgerBirth *birth, const void *how);
extern bool operation_insert(const Ledger *ledger, LedgerBirth *birth,
							 OperationFreeze freeze, const void *how,
							 LedgerOperation **there);
/* Of rows that we hold. The changes say afterwards where they are. */
extern void operation_save(const Ledger *ledger, LedgerChange *changes, int n,
						   TimestampTz now);
/* The transaction may have changed the row since it was locked. */
extern void operation_save_one(const Ledger *ledger, const LedgerChange *change,
							   TimestampTz now);
/* The longest lease counts: a client may send until its own has run out. */
extern void operation_lease(const Ledger *ledger, const char *op_id, TimestampTz until);
/* The next generation, beside what operation_save_one() writes. */
extern void operation_reissue(const Ledger *ledger, const LedgerOperation *before,
							  const OplDecision *decision, const LedgerRequest *rendered);
extern void operation_adopt(const Ledger *ledger, const LedgerChange *changes, int n);

#endif
