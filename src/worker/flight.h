/*
 * flight.h - the exchanges that are in hand: claimed, on the wire, answered.
 */
#ifndef OPL_FLIGHT_H
#define OPL_FLIGHT_H

#include "postgres.h"

#include "store/actions.h"
#include "spec/classify.h"
#include "wire/exchange.h"
#include "store/operation.h"
#include "lib/ilist.h"
#include "lib/stringinfo.h"

/* One exchange with a provider. Has a memory context of its own; outlives turns. */
typedef struct Exchange
{
	dlist_node    node;
	dlist_node    in_chain; /* of those in hand, by op id */
	MemoryContext context;
	char         *op_id;
	char         *provider;
	Action       *action; /* as it was at the claim */
	OplStep       step;
	int           n; /* its number among the operation's exchanges */
	int           generation;
	char         *name_space; /* of its markers; NULL: none */
	OplState      state;      /* of the operation, since the claim */
	TimestampTz   not_after;
	bool          poll;        /* a lookup of one object, by its external id */
	char         *external_id; /* which is this; NULL: it is no poll */
	TimestampTz   started_at;  /* of its first page */
	Search        search;      /* the pages of a lookup so far */
	const char   *first_url;
	StringInfo    headers; /* of the pages before this one, NULL: it is the first */
	StringInfo    bodies;  /* each with a line feed behind it */
	Request       request;
	const char   *credential; /* in a header of the request, NULL: none */
	Evidence      evidence;
	Judgement     judgement; /* valid when judged */
	bool          judged;
	bool  unseen; /* its end was not seen: nothing is known of it but that it began */
	int64 answered_at;   /* steady */
	int64 retry_at;      /* steady: somebody had its row; 0: at once */
	ItemPointerData row; /* where the operation's row was after the claim */
	ItemPointerData due; /* and the agenda's */
} Exchange;

/* What is to be sent after the commit, within margin of `now`. Copies what it needs.
 * All `now`s here are by the steady clock. */
extern Exchange *flight_prepare(const LedgerOperation *operation,
								const LedgerRequest *request, Action *action,
								OplStep step, const OplDecision *decision, int64 now);

/* The commit did not happen: nothing was claimed. */
extern void flight_discard(void);

/* The commit happened: all that is prepared goes to the wire; or, since a stop was
 * asked for, never does. */
extern void flight_depart(bool send);

/* Let the wire work, and take in what ended. */
extern void flight_collect(void);

/* Up to `max` answers, of different operations, judged. */
extern int flight_answers(Exchange **answers, int max, int64 now);

/* Its evidence is committed. */
extern void flight_settled(Exchange *exchange);

/* Is this exchange of the operation in hand? */
extern bool flight_has(const char *op_id, int n);

extern int flight_on_wire(void);
extern int flight_in_hand(void);

/* How many answers can be settled now, and the moment since or from which the
 * first can, by the steady clock; PG_INT64_MAX: none. */
extern int flight_ready(int64 now, int64 *first);

/* Its row is held by a session: try again a little later. */
extern void flight_keep(Exchange *exchange, int64 now);

/* When the oldest of these came, by the steady clock; 0: there are none. */
extern int64 flight_oldest_kept(void);

/* The process is about to leave, and drives the wire no more: what has no answer
 * is answered with "lost", or is proven not to have been sent. */
extern void flight_abandon(void);

#endif
