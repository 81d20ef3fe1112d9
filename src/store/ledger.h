/*
 * ledger.h - the handle that every function of this room takes, and what is said of
 * more than one table: an operation's birth, and a change.
 *
 * A handle is a value: whoever is called by SQL or begins a turn makes one, and hands
 * it down. Nothing of it is static, so a trigger of the user's that fires under our
 * writing may call op_ledger again, and return by an error, without disturbing us.
 *
 * The caller's search_path is pinned to pg_catalog and the extension's schema, so that
 * names in statements mean the same for everybody.
 */
#ifndef OPL_LEDGER_H
#define OPL_LEDGER_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "rules/decide.h"
#include "storage/itemptr.h"
#include "utils/jsonb.h"

typedef struct Ledger
{
	Oid           schema;             /* of the extension */
	MemoryContext memory;             /* where what is read goes */
	bool          snapshot_of_caller; /* rows are read as the calling statement sees them;
									   * else as one would that begins now */
} Ledger;

/* What is read lives as long as the current memory context. */
static inline Ledger
ledger_open(Oid schema)
{
	Ledger ledger = {.schema = schema, .memory = CurrentMemoryContext};

	Assert(OidIsValid(schema));
	return ledger;
}

/* One operation to be born: rows of op_operation, op_request and op_due. */
typedef struct LedgerBirth
{
	const char  *op_id;
	const char  *action;
	const char  *provider;
	const char  *submitted_by;
	const uint8 *args_hash;
	Jsonb       *args;
	const char  *run_id, *lane, *step, *tool_call_id, *dedupe_key, *traceparent;
	Datum        not_before, not_after, cost;
	bool         no_not_before, no_not_after, no_cost;
	const char  *key;
	const char  *method;
	const char  *url;
	int          nheaders;
	char       **headers;
	const char  *body;
	size_t       body_len;
	const char  *base_url, *name_space;
	OplDecision  born;
	const char  *digest; /* of the request, when it is held; NULL otherwise */
} LedgerBirth;

/* What is to be written about one operation: its row, and its row of the agenda. */
typedef struct LedgerChange
{
	const char     *op_id;
	const char     *provider;
	OplDecision     decision;
	const char     *external_id; /* NULL: as it is */
	const char     *failed_id;   /* joins failed_ids; NULL: none does */
	const char     *reason;
	bool            claimed;     /* the agenda's row carries our epoch */
	bool            for_client;  /* its send waits for op_claim() */
	TimestampTz     lease_until; /* of an adoption; 0: as it is */
	ItemPointerData row;         /* of op_operation */
	ItemPointerData due;         /* of op_due, which we hold; invalid: there is none */
} LedgerChange;

#endif
