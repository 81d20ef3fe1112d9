/*
 * wake.c - shared slots, wake at commit, wait for an end.
 *
 *  1. A slot is taken (FREE -> STARTING) by the launcher before it asks for a
 *     process, so that no database gets two; the worker makes it RUNNING and, on
 *     any exit, GONE; the launcher frees it.
 *  2. Everything in a slot is protected by the lock, but a latch may be set by
 *     whoever read it: a latch of the shared process array outlives its process.
 *  3. What runs at commit cannot fail: an error there would be a PANIC.
 */
#include "postgres.h"

#include "base/wake.h"

#include "base/clock.h"
#include "base/compat.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/condition_variable.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/resowner.h"

typedef struct Slot
{
	SlotReport report;
	Latch     *latch; /* of the worker while it lives */
	bool       nudged;
	bool       yield;
	bool       dismissed;
} Slot;

typedef struct Shared
{
	LWLock           *lock;
	ConditionVariable ended;    /* broadcast when operations end */
	Latch            *launcher; /* NULL: none */
	bool              scan;     /* look at all databases now */
	int               nslots;
	Slot              slots[FLEXIBLE_ARRAY_MEMBER];
} Shared;

static Shared *shared = NULL;
static int     my_slot = -1;

/* What the present transaction asked for. */
static struct
{
	bool registered;
	bool worker;
	bool waiters;
	bool nudge;
	bool launcher;
	bool databases;
} pending;

static shmem_request_hook_type prev_request_hook = NULL;
static shmem_startup_hook_type prev_startup_hook = NULL;

/* ------------------------------------------------------------------ memory */

static Size
shared_size(void)
{
	return add_size(offsetof(Shared, slots),
					mul_size((Size) max_worker_processes, sizeof(Slot)));
}

static void
request_memory(void)
{
	if (prev_request_hook)
		prev_request_hook();
	RequestAddinShmemSpace(shared_size());
	RequestNamedLWLockTranche("op_ledger", 1);
}

static void
set_up_memory(void)
{
	bool found;

	if (prev_startup_hook)
		prev_startup_hook();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	shared = ShmemInitStruct("op_ledger", shared_size(), &found);
	if (!found)
	{
		memset(shared, 0, shared_size());
		shared->lock = &GetNamedLWLockTranche("op_ledger")->lock;
		ConditionVariableInit(&shared->ended);
		shared->nslots = max_worker_processes;
	}
	LWLockRelease(AddinShmemInitLock);
}

void
wake_init(void)
{
	prev_request_hook = shmem_request_hook;
	shmem_request_hook = request_memory;
	prev_startup_hook = shmem_startup_hook;
	shmem_startup_hook = set_up_memory;
}

bool
wake_available(void)
{
	return shared != NULL;
}

/* ------------------------------------------------------------------- slots */

/* Has it a process, or is about to have one? */
static bool
is_alive(const Slot *slot)
{
	return slot->report.state == SLOT_RUNNING || slot->report.state == SLOT_STARTING;
}

/* The next slot of a database behind `index`, start with -1. Lock held. */
static Slot *
next_slot_of(Oid database, int *index)
{
	while (++*index < shared->nslots)
	{
		Slot *slot = &shared->slots[*index];

		if (slot->report.database == database && is_alive(slot))
			return slot;
	}
	return NULL;
}

SlotReport
wake_report(Oid database)
{
	SlotReport report = {.state = SLOT_FREE};
	Slot      *slot;
	int        index = -1;

	if (!shared)
		return report;
	LWLockAcquire(shared->lock, LW_SHARED);
	while ((slot = next_slot_of(database, &index)) != NULL)
	{
		if (report.state == SLOT_FREE || slot->report.number < report.number)
			report = slot->report;
	}
	LWLockRelease(shared->lock);
	return report;
}

void
wake_yield(Oid database)
{
	Slot *slot;
	int   index = -1;

	if (!shared)
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	while ((slot = next_slot_of(database, &index)) != NULL)
	{
		slot->yield = true;
		if (slot->latch)
			SetLatch(slot->latch);
	}
	LWLockRelease(shared->lock);
}

/* --------------------------------------------------------------- at commit */

/* The workers of this session's database. Cannot fail. */
static void
wake_own_workers(bool nudge)
{
	Slot *slot;
	int   index = -1;

	LWLockAcquire(shared->lock, nudge ? LW_EXCLUSIVE : LW_SHARED);
	while ((slot = next_slot_of(MyDatabaseId, &index)) != NULL)
	{
		if (nudge)
			slot->nudged = true;
		if (slot->latch)
			SetLatch(slot->latch);
	}
	LWLockRelease(shared->lock);
}

static void
wake_launcher(bool scan)
{
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	shared->scan = shared->scan || scan;
	if (shared->launcher)
		SetLatch(shared->launcher);
	LWLockRelease(shared->lock);
}

static void
forget_wishes(void)
{
	pending.worker = pending.waiters = pending.nudge = false;
	pending.launcher = pending.databases = false;
}

/* Whoever is woken must find all that the commit brings, the news that the
 * configuration has changed, too; that is sent before the last resources are released,
 * and after transaction callbacks are called. */
static void
after_locks(ResourceReleasePhase phase, bool is_commit, bool is_top_level, void *arg)
{
	if (phase != RESOURCE_RELEASE_AFTER_LOCKS || !is_top_level)
		return;
	if (is_commit)
	{
		if (pending.worker || pending.nudge)
			wake_own_workers(pending.nudge);
		if (pending.waiters)
			ConditionVariableBroadcast(&shared->ended);
		if (pending.launcher || pending.databases)
			wake_launcher(pending.launcher);
	}
	forget_wishes();
}

/* A prepared transaction releases its resources as a commit does, but brings nothing. */
static void
at_transaction_end(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE)
		forget_wishes();
}

/* Once per backend. Asked for inside a transaction, where errors are allowed. */
static bool
register_once(void)
{
	if (!shared)
		return false;
	if (!pending.registered)
	{
		RegisterXactCallback(at_transaction_end, NULL);
		RegisterResourceReleaseCallback(after_locks, NULL);
		pending.registered = true;
	}
	return true;
}

void
wake_worker_at_commit(void)
{
	pending.worker = register_once();
}

void
wake_waiters_at_commit(void)
{
	pending.waiters = register_once();
}

void
wake_nudge_at_commit(void)
{
	pending.nudge = register_once();
}

void
wake_launcher_at_commit(void)
{
	pending.launcher = register_once();
}

void
wake_databases_at_commit(void)
{
	pending.databases = register_once();
}

/* --------------------------------------------------------- waiting for ends */

void
wake_wait_begin(void)
{
	if (shared)
		ConditionVariablePrepareToSleep(&shared->ended);
}

void
wake_wait_sleep(long timeout_ms)
{
	if (shared)
	{
		ConditionVariableTimedSleep(&shared->ended, timeout_ms, PG_WAIT_EXTENSION);
		return;
	}
	/* Not preloaded: nobody will ever wake us, but time passes. */
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, timeout_ms,
					 PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

void
wake_wait_finish(void)
{
	if (shared)
		ConditionVariableCancelSleep();
}

void
wake_waiters(void)
{
	ConditionVariableBroadcast(&shared->ended);
}

/* -------------------------------------------------------------- the worker */

static void
leave_slot(int code, Datum arg)
{
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	shared->slots[my_slot].report.state = SLOT_GONE;
	shared->slots[my_slot].latch = NULL;
	if (shared->launcher)
		SetLatch(shared->launcher);
	LWLockRelease(shared->lock);
}

Oid
wake_attach(int index)
{
	Slot *slot = &shared->slots[index];
	Oid   database;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	if (slot->report.state != SLOT_STARTING || slot->report.pid != 0)
	{
		LWLockRelease(shared->lock);
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("op_ledger worker was started for a slot that is not its own")));
	}
	slot->report.pid = MyProcPid;
	slot->report.started_at = clock_steady();
	slot->latch = MyLatch;
	database = slot->report.database;
	my_slot = index;
	LWLockRelease(shared->lock);
	before_shmem_exit(leave_slot, (Datum) 0);
	return database;
}

int
wake_number(void)
{
	return shared->slots[my_slot].report.number;
}

/* Ours is on record before we look at the others: of workers that start together,
 * the last one to look knows all. */
int64 *
wake_epochs(int64 mine, int *count)
{
	int64 *epochs = palloc(sizeof(int64) * shared->nslots);
	bool   known = true;
	Slot  *slot;
	int    index = -1;

	*count = 0;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	shared->slots[my_slot].report.epoch = mine;
	while ((slot = next_slot_of(MyDatabaseId, &index)) != NULL)
	{
		if (slot->report.epoch != 0)
			epochs[(*count)++] = slot->report.epoch;
		else if (slot->report.pid != 0)
			known = false;
	}
	LWLockRelease(shared->lock);
	return known ? epochs : NULL;
}

void
wake_running(int64 epoch)
{
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	shared->slots[my_slot].report.state = SLOT_RUNNING;
	shared->slots[my_slot].report.epoch = epoch;
	if (shared->launcher)
		SetLatch(shared->launcher); /* others may follow now */
	LWLockRelease(shared->lock);
}

void
wake_leaving(SlotEnd end)
{
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	shared->slots[my_slot].report.end = end;
	LWLockRelease(shared->lock);
}

static bool
take_flag(bool *flag)
{
	bool was;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	was = *flag;
	*flag = false;
	LWLockRelease(shared->lock);
	return was;
}

bool
wake_take_nudged(void)
{
	return take_flag(&shared->slots[my_slot].nudged);
}

bool
wake_take_yield(void)
{
	return take_flag(&shared->slots[my_slot].yield);
}

/* Asked for in every loop, so without the lock: whoever says it sets our latch after. */
bool
wake_dismissed(void)
{
	return *(volatile bool *) &shared->slots[my_slot].dismissed;
}

void
wake_turned(int in_flight, int64 held_since)
{
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	shared->slots[my_slot].report.turn_at = clock_steady();
	shared->slots[my_slot].report.in_flight = in_flight;
	shared->slots[my_slot].report.held_since = held_since;
	LWLockRelease(shared->lock);
}

void
wake_turn_failed(const char *failure)
{
	SlotReport *report = &shared->slots[my_slot].report;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	report->failed_turns++;
	report->failed_at = clock_steady();
	strlcpy(report->failure, failure, sizeof(report->failure));
	LWLockRelease(shared->lock);
}

/* ------------------------------------------------------------ the launcher */

static void
leave_launcher(int code, Datum arg)
{
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	shared->launcher = NULL;
	LWLockRelease(shared->lock);
}

void
wake_launcher_start(void)
{
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	shared->launcher = MyLatch;
	LWLockRelease(shared->lock);
	before_shmem_exit(leave_launcher, (Datum) 0);
}

bool
wake_take_scan(void)
{
	return take_flag(&shared->scan);
}

int
wake_slot_count(void)
{
	return shared->nslots;
}

SlotReport
wake_slot(int slot)
{
	SlotReport report;

	LWLockAcquire(shared->lock, LW_SHARED);
	report = shared->slots[slot].report;
	LWLockRelease(shared->lock);
	return report;
}

void
wake_dismiss(int slot)
{
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	shared->slots[slot].dismissed = true;
	if (shared->slots[slot].latch)
		SetLatch(shared->slots[slot].latch);
	LWLockRelease(shared->lock);
}

int
wake_slot_take(Oid database, int number)
{
	int   taken = -1;
	int   index = -1;
	Slot *slot;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	while ((slot = next_slot_of(database, &index)) != NULL)
	{
		if (slot->report.number == number)
		{
			LWLockRelease(shared->lock);
			return -1;
		}
	}
	for (int i = 0; i < shared->nslots && taken < 0; i++)
	{
		if (shared->slots[i].report.state == SLOT_FREE)
		{
			memset(&shared->slots[i], 0, sizeof(Slot));
			shared->slots[i].report.database = database;
			shared->slots[i].report.number = number;
			shared->slots[i].report.state = SLOT_STARTING;
			taken = i;
		}
	}
	LWLockRelease(shared->lock);
	return taken;
}

void
wake_slot_free(int slot)
{
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	memset(&shared->slots[slot], 0, sizeof(Slot));
	LWLockRelease(shared->lock);
}
