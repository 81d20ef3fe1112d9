/*
 * event.h - op_event: what people and rules did.
 */
#ifndef OPL_EVENT_H
#define OPL_EVENT_H

#include "postgres.h"

#include "store/ledger.h"

/* op_id NULL: about the ledger as a whole. */
extern void event_insert(const Ledger *ledger, const char *op_id, const char *actor,
						 const char *event, const char *note);
/* The same of each operation. */
extern void event_insert_many(const Ledger *ledger, char **op_ids, int n,
							  const char *actor, const char *event, const char *note);
/* About the ledger as a whole, unless the very same is on record. */
extern void event_insert_once(const Ledger *ledger, const char *actor, const char *event,
							  const char *note);
/* The note of the last event of this kind; NULL: there is none on record. */
extern char *event_last_note(const Ledger *ledger, const char *op_id, const char *event);
/* A client's claim of exchange `n` is known by its event: nothing else is on record of it
 * until its end was seen. When it was, and how often the operation was reissued since;
 * false: no client ever claimed it. */
extern bool event_find_claim(const Ledger *ledger, const char *op_id, int n,
							 TimestampTz *at, int *reissues);
/* Logical replication brings rows, and leaves their sequence behind. */
extern void event_catch_up(const Ledger *ledger);

#endif
