/*
 * batch.h - what one turn works on and what it will write.
 */
#ifndef OPL_BATCH_H
#define OPL_BATCH_H

#include "postgres.h"

#include "base/clock.h"
#include "worker/flight.h"
#include "store/agenda.h"
#include "store/attempt.h"
#include "store/operation.h"

#define SETTLE_MAX 256 /* answers in one turn */
#define CLAIM_MAX 128  /* rows of the agenda in one turn */

/* Lives as long as the turn's transaction. */
typedef struct Batch
{
	const Ledger *ledger;
	OplClock      clock; /* as of the last lock on rows */
	TimestampTz   now;   /* its moment */
	int64         steady;
	ClockReading  heeded; /* at the begin: its steps are seen to in this turn */
	Exchange     *answers[SETTLE_MAX];
	int           nanswers;
	LedgerDue    *due;
	int           ndue;
	LedgerPlaces *places; /* free on the wire, when the agenda was read */
	int           nplaces;

	/* to be written */
	LedgerChange  *changes;
	int            nchanges;
	int            room;
	LedgerAttempt *attempts;
	int            nattempts;

	/* done, once it is committed */
	Exchange *settled[SETTLE_MAX];
	int       nsettled;
	Exchange *claimed[CLAIM_MAX];
	int       claimed_by[CLAIM_MAX]; /* the change that claims it */
	int       nclaimed;
	bool      ended; /* an operation ended: tell those who wait */
} Batch;

extern Batch *batch_new(const Ledger *ledger);

/* Rows were locked: decisions about them are made by the clock from here on. */
extern void batch_look_at_clock(Batch *batch);
/* A moment that lies ahead, by the steady clock. */
extern int64 batch_steady(const Batch *batch, TimestampTz moment);

/* What follows for an operation. */
extern LedgerChange  *batch_change(Batch *batch, const LedgerOperation *operation,
								   const OplDecision *decision);
extern LedgerAttempt *batch_attempt(Batch *batch, const char *op_id);
/* The operations that it changes so far, sorted. */
extern char **batch_changed(const Batch *batch, int *n);
/* The first moment that its changes plan something for, infinity: none. */
extern TimestampTz batch_soonest(const Batch *batch);

extern void batch_write(Batch *batch, int64 epoch);

#endif
