/*
 * agenda.h - op_due, the agenda, and op_nudge, the wishes to look sooner.
 */
#ifndef OPL_AGENDA_H
#define OPL_AGENDA_H

#include "postgres.h"

#include "store/ledger.h"

/* A row of op_due that we hold. */
typedef struct LedgerDue
{
	char           *op_id;
	char           *provider;
	OplStep         step;
	ItemPointerData row;
	TimestampTz     due_at;
} LedgerDue;

/* What may be claimed now, for one provider and step. */
typedef struct LedgerPlaces
{
	const char *provider;
	OplStep     step;
	int         places; /* rows that are looked at */
	int         free;   /* of them, those that can go out */
	TimestampTz since;  /* rows due before were taken already; -infinity: all */
} LedgerPlaces;

/* ---- reading */
/* NONE, and OPL_NEVER: it is not on the agenda. */
extern OplStep agenda_step(const Ledger *ledger, const char *op_id, TimestampTz *due_at);
extern TimestampTz agenda_due_at(const Ledger *ledger, const char *op_id);
/* Those of them that are on the agenda, in the order that was asked for. */
extern char **agenda_having(const Ledger *ledger, char **op_ids, int n, int *count);
/* The first moment after now that something is due for these places. */
extern TimestampTz agenda_next(const Ledger *ledger, const LedgerPlaces *places,
							   int nplaces, TimestampTz now);

/* ---- the worker: what somebody holds is passed over */
/* Due rows: at most `limit`, as many as there are places, none of `avoided`, which
 * are sorted. */
extern LedgerDue *agenda_take(const Ledger *ledger, const LedgerPlaces *places,
							  int nplaces, int limit, char **avoided, int navoided,
							  TimestampTz now, int *count);
/* Where they were is looked at first; NULL: not known. */
extern LedgerDue *agenda_lock(const Ledger *ledger, char **op_ids,
							  const ItemPointerData *were_at, int n, int *count);
extern int64      agenda_new_epoch(const Ledger *ledger);
/* What epochs before ours hold that are not among the living comes due now. */
extern void agenda_recover(const Ledger *ledger, int64 mine, const int64 *living, int n,
						   TimestampTz now);

/* The clock was set by `by` microseconds, or steps back may have passed unseen: what
 * was planned as a duration comes no later for it, and no attempt that is under way is
 * taken for lost. `since`: the clock is known to have been steady from then on. */
extern void agenda_shift(const Ledger *ledger, int64 by, TimestampTz now,
						 TimestampTz since);
extern void agenda_bring_forward(const Ledger *ledger, TimestampTz now);

/* ---- writing */
/* What the changes decide, where they moved: a row that `due` names is updated, or
 * deleted when there is no next step, and `due` says where it is afterwards; where it
 * names none, one is inserted. Rows that are claimed carry the epoch. */
extern void agenda_plan(const Ledger *ledger, LedgerChange *changes, int n, int64 epoch);
/* Of sessions, which hold the operations: waits for the rows. */
extern void agenda_remove(const Ledger *ledger, char **op_ids, int n);

/* ---- nudges */
extern void agenda_nudge(const Ledger *ledger, const char *op_id);
/* Takes them; sorted, each operation once. */
extern char **agenda_take_nudges(const Ledger *ledger, int *count);

#endif
