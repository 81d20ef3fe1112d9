/*
 * attempt.h - op_attempt: every exchange with a provider, and what it showed.
 */
#ifndef OPL_ATTEMPT_H
#define OPL_ATTEMPT_H

#include "postgres.h"

#include "lib/stringinfo.h"
#include "store/ledger.h"
#include "wire/exchange.h"

typedef struct LedgerAttempt
{
	const char     *op_id;
	int             n;
	const char     *kind;
	int             generation;
	const char     *verdict;
	const char     *reason;
	const char     *external_id;
	const char     *request_id;
	const char     *objects;  /* of ours, where several were seen: JSON, or NULL */
	const Evidence *evidence; /* NULL: there was no exchange we saw the end of */
	StringInfo      headers;  /* what came before it on earlier pages, NULL: nothing */
	StringInfo      bodies;
	int             pages; /* of a list that were read */
	TimestampTz     started_at;
	TimestampTz     finished_at;
} LedgerAttempt;

extern void attempt_insert(const Ledger *ledger, const LedgerAttempt *attempts, int n);

/* When the last lookup ended; OPL_NEVER: there was none. */
extern TimestampTz attempt_last_lookup(const Ledger *ledger, const char *op_id);
/* Was a send of the generation answered 2xx? The word for what came, one that speaks of
 * a marker before others; NULL: no. */
extern char *attempt_answered(const Ledger *ledger, const char *op_id, int generation);
/* An object of the operation at the provider, and which exchanges showed it. */
typedef struct LedgerObject
{
	char *id;
	char *state; /* done, pending, failed, seen */
	char *seen;  /* NULL: it is only on record */
} LedgerObject;

extern LedgerObject *attempt_objects(const Ledger *ledger, const char *op_id, int *count);
/* The number that evidence is stored under which is not the answer to what is under way:
 * that of its own exchange, while nobody has written there, else the next of those that
 * count down from -1. `n` 0: it has none of its own. The caller holds the operation, as
 * everybody does who writes attempts, so the number stays free. */
extern int attempt_free_number(const Ledger *ledger, const char *op_id, int n);
/* Did a webhook bring this event before? The caller holds the operation. */
extern bool attempt_has_event(const Ledger *ledger, const char *op_id,
							  const char *event_id);
/* Operations that an exchange showed with this external id, in their order. */
extern char **attempt_with_object(const Ledger *ledger, const char *external_id,
								  int *count);

#endif
