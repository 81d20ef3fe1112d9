/*
 * dispatch.h - one turn: claim, send, judge, settle.
 */
#ifndef OPL_DISPATCH_H
#define OPL_DISPATCH_H

#include "postgres.h"

typedef enum TurnResult
{
	TURN_DONE,
	TURN_NO_EXTENSION, /* it is not, or no longer, in this database */
	TURN_YIELD         /* DDL waits for the database, or for the extension */
} TurnResult;

/* Take a new epoch, and what dead ones left. */
extern TurnResult dispatch_start(int64 *epoch);

/* Milliseconds until a turn is worth a transaction; 0: now. */
extern long dispatch_wait(bool woken);

/* One turn. When it raises, nothing has changed but the transaction, which the
 * caller aborts before it calls dispatch_failed(). */
extern TurnResult dispatch_turn(bool claiming);
extern void       dispatch_failed(int sqlstate, const char *message);

/* The process is about to leave: what has no answer yet is unknown from now on. */
extern void dispatch_abandon(void);

/* Told before and after every commit, so that a stop can end the wait for a
 * standby that is gone. */
extern void (*dispatch_committing)(bool);

#endif
