/*
 * request.h - op_request: what is sent, frozen.
 */
#ifndef OPL_REQUEST_H
#define OPL_REQUEST_H

#include "postgres.h"

#include "store/scanner.h"

typedef struct LedgerRequest
{
	char       *op_id;
	int         generation;
	Jsonb      *args;
	char       *method;
	char       *url;
	int         nheaders;
	char      **headers;
	char       *body; /* NULL: none */
	size_t      body_len;
	TimestampTz not_before; /* OPL_NEVER: none */
	TimestampTz not_after;
	char       *key;
	char       *traceparent;
	char       *base_url;   /* where it goes, and where it is asked after */
	char       *name_space; /* of its markers; NULL: none */
} LedgerRequest;

/* NULL: purged. */
extern LedgerRequest *request_read(const Ledger *ledger, const char *op_id,
								   int generation);
/* Those that are there, in the order that was asked for. */
extern LedgerRequest *request_read_many(const Ledger *ledger, char **op_ids,
										const int *generations, int n, int *count);
/* Of an operation that is inserted by this command. */
extern void request_insert(Scanner *command, const LedgerBirth *birth);
/* The next generation's: rendered anew, and what the caller said at first as it was. */
extern void request_insert_next(const Ledger *ledger, const char *op_id, int before,
								int generation, const LedgerRequest *rendered);

#endif
