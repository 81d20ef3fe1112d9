/*
 * wake.h - shared memory: who works for which database, waking it at commit,
 * and waiting for an end.
 */
#ifndef OPL_WAKE_H
#define OPL_WAKE_H

#include "postgres.h"

typedef enum SlotState
{
	SLOT_FREE,
	SLOT_STARTING, /* the launcher asked for a process */
	SLOT_RUNNING,  /* a worker that found the extension */
	SLOT_GONE      /* its process ended; the launcher frees it */
} SlotState;

/* Why a worker left, for the launcher's back-off. */
typedef enum SlotEnd
{
	END_ERROR,   /* it did not get to say why */
	END_ABSENT,  /* the extension is not in this database */
	END_YIELDED, /* DDL on the database goes first */
	END_STOPPED  /* op_ledger.enabled is off, or a stop was asked for */
} SlotEnd;

/* A worker's report, copied out under the lock. */
typedef struct SlotReport
{
	Oid       database;
	int       number; /* among the workers of its database, from 0 */
	SlotState state;
	SlotEnd   end;
	pid_t     pid;
	int64     epoch;
	/* by the steady clock; 0: never */
	int64 started_at;
	int64 turn_at;    /* last turn that was committed */
	int64 held_since; /* oldest answer that waits for a row */
	int64 failed_at;  /* last turn that failed */
	int64 failed_turns;
	int   in_flight;
	char  failure[128];
} SlotReport;

/* _PG_init: ask for the memory. */
extern void wake_init(void);

/* False when op_ledger is not preloaded: everything below then does nothing. */
extern bool wake_available(void);

/* ---- sessions: cannot fail once asked for, cost nothing until the commit */
extern void wake_worker_at_commit(void);
extern void wake_waiters_at_commit(void);
extern void wake_nudge_at_commit(void);
extern void wake_launcher_at_commit(void);  /* a database may want a worker now */
extern void wake_databases_at_commit(void); /* databases came or changed */

/* The first worker of this database; state FREE when there is none. */
extern SlotReport wake_report(Oid database);

/* Now, from a hook: the worker of `database` looks whether DDL waits for it. */
extern void wake_yield(Oid database);

/* ---- waiting for an end: begin, look, sleep, look, …, finish */
extern void wake_wait_begin(void);
extern void wake_wait_sleep(long timeout_ms);
extern void wake_wait_finish(void);

/* ---- the worker */
extern Oid wake_attach(int slot); /* at start; the slot's database */
extern int wake_number(void);     /* among the workers of the database */

/* Says our epoch; those of all workers of this database that live, or NULL when one
 * of them has not said its own yet. */
extern int64 *wake_epochs(int64 mine, int *count);

extern void wake_running(int64 epoch); /* the extension is here */
extern void wake_leaving(SlotEnd end); /* said before proc_exit */
extern bool wake_take_nudged(void);    /* somebody asked again, since last time */
extern bool wake_take_yield(void);
extern bool wake_dismissed(void); /* this database is to have no worker */
extern void wake_turned(int in_flight, int64 held_since);
extern void wake_turn_failed(const char *failure);
extern void wake_waiters(void); /* operations ended: after the commit */

/* ---- the launcher */
extern void       wake_launcher_start(void);
extern bool       wake_take_scan(void); /* a database was told to want a worker */
extern int        wake_slot_count(void);
extern SlotReport wake_slot(int slot);
extern void       wake_dismiss(int slot); /* its worker leaves */
/* A free slot, now STARTING; -1: none is, or that worker has one. */
extern int  wake_slot_take(Oid database, int number);
extern void wake_slot_free(int slot);

#endif
