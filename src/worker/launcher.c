/*
 * launcher.c - one worker per database that has the extension.
 *
 * The probe is the worker itself: it looks for the extension and leaves or
 * stays. A database whose probe found nothing is probed again once a minute, or
 * at once when somebody committed a CREATE EXTENSION.
 *
 *  1. A slot belongs to one worker of one database by its number (wake.c), so that no
 *     worker is started twice, even when the launcher itself is restarted.
 *  2. At most PROBES slots are STARTING at a time: probing a hundred databases
 *     must not use up the worker slots of others.
 */
#include "postgres.h"

#include "worker/launcher.h"

#include "base/clock.h"
#include "base/compat.h"
#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/tableam.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "base/guc.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "wire/reactor.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "base/wake.h"

#define PROBES 2
#define ABSENT_WAIT (60 * INT64CONST(1000000))
#define FIRST_WAIT (1 * INT64CONST(1000000))
#define LONGEST_WAIT (60 * INT64CONST(1000000))
#define YIELD_WAIT (1 * INT64CONST(1000000))

/* A slot that is STARTING for longer than this has lost its process. */
#define STARTING_MAX (30 * INT64CONST(1000000))

/* What the launcher remembers of a database. All moments here are by the steady
 * clock. */
typedef struct Known
{
	Oid   database;
	int64 next_at; /* not probed before then */
	int64 started_at;
	int64 wait;    /* back-off after errors */
	bool  present; /* in the latest scan of pg_database */
} Known;

static Known *known = NULL;
static int    nknown = 0;
static int    known_size = 0;
static int64  asked_at = 0; /* somebody committed a CREATE EXTENSION */
static bool   complained = false;

/* A server in binary upgrade mode is one that pg_upgrade reads, or writes a copy to:
 * it may be gone in a minute, and what it sent with it. A single user has no
 * background workers at all. */
void
launcher_register(void)
{
	BackgroundWorker worker = {0};

	if (IsBinaryUpgrade)
		return;
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = 1;
	strlcpy(worker.bgw_library_name, "op_ledger", BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, "op_ledger_launcher_main", BGW_MAXLEN);
	strlcpy(worker.bgw_name, "op_ledger launcher", BGW_MAXLEN);
	strlcpy(worker.bgw_type, "op_ledger launcher", BGW_MAXLEN);
	RegisterBackgroundWorker(&worker);
}

/* ----------------------------------------------------------------- databases */

static Known *
known_of(Oid database)
{
	for (int i = 0; i < nknown; i++)
	{
		if (known[i].database == database)
			return &known[i];
	}
	return NULL;
}

static void
remember(Oid database)
{
	Known *entry = known_of(database);

	if (!entry)
	{
		if (nknown == known_size)
		{
			known_size = Max(16, known_size * 2);
			known =
				known ? repalloc(known, sizeof(Known) * known_size)
					  : MemoryContextAlloc(TopMemoryContext, sizeof(Known) * known_size);
		}
		entry = &known[nknown++];
		memset(entry, 0, sizeof(Known));
		entry->database = database;
		entry->wait = FIRST_WAIT;
	}
	entry->present = true;
}

/* What DROP DATABASE leaves when it is interrupted. */
#define INVALID_DATABASE (-2)

/* Databases that may have a worker: connectable, no template, allowed. */
static void
scan_databases(void)
{
	Relation      catalog = table_open(DatabaseRelationId, AccessShareLock);
	TableScanDesc scan = table_beginscan_catalog(catalog, 0, NULL);
	HeapTuple     tuple;
	int           kept = 0;

	for (int i = 0; i < nknown; i++)
		known[i].present = false;
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		Form_pg_database row = (Form_pg_database) GETSTRUCT(tuple);

		if (row->datallowconn && !row->datistemplate &&
			row->datconnlimit != INVALID_DATABASE &&
			guc_allows_database(NameStr(row->datname)))
			remember(row->oid);
	}
	table_endscan(scan);
	table_close(catalog, AccessShareLock);
	for (int i = 0; i < nknown; i++)
	{
		if (known[i].present)
			known[kept++] = known[i];
	}
	nknown = kept;
}

/* A worker that started now would only be in the way of DDL on its database. */
static bool
ddl_waits(Oid database)
{
	LOCKTAG tag;

	SET_LOCKTAG_OBJECT(tag, InvalidOid, DatabaseRelationId, database, 0);
	if (LockAcquire(&tag, RowExclusiveLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
		return true;
	LockRelease(&tag, RowExclusiveLock, false);
	return false;
}

/* --------------------------------------------------------------------- slots */

/* When to look at a database again, by what its worker said at the end. */
static void
plan_restart(const SlotReport *slot, int64 now)
{
	Known *entry = known_of(slot->database);

	if (!entry)
		return;
	switch (slot->end)
	{
		case END_ABSENT:
			/* It may have looked before the extension was there, or was there again. */
			if (slot->epoch == 0 && entry->started_at >= asked_at)
				entry->next_at = now + ABSENT_WAIT;
			entry->wait = FIRST_WAIT;
			break;
		case END_YIELDED:
			entry->next_at = now + YIELD_WAIT;
			break;
		case END_STOPPED:
			entry->next_at = now;
			break;
		case END_ERROR:
			if (slot->started_at != 0 && now - slot->started_at > LONGEST_WAIT)
				entry->wait = FIRST_WAIT;
			entry->next_at = now + entry->wait;
			entry->wait = Min(entry->wait * 2, LONGEST_WAIT);
			break;
	}
}

/* Frees the slots whose process ended, and tells workers that are not wanted any
 * more. Returns how many are starting. */
static int
reap(int64 now)
{
	int starting = 0;

	for (int i = 0; i < wake_slot_count(); i++)
	{
		SlotReport slot = wake_slot(i);
		Known     *entry = slot.state == SLOT_FREE ? NULL : known_of(slot.database);
		bool       lost = slot.state == SLOT_STARTING && slot.pid == 0 &&
					(!entry || now - entry->started_at > STARTING_MAX);

		if (slot.state == SLOT_GONE || lost)
		{
			plan_restart(&slot, now);
			wake_slot_free(i);
		}
		else if (slot.state == SLOT_STARTING)
			starting++;
		else if (slot.state == SLOT_RUNNING && !entry)
			wake_dismiss(i);
	}
	return starting;
}

static bool
start_worker(int slot)
{
	BackgroundWorker worker = {0};

	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	worker.bgw_main_arg = Int32GetDatum(slot);
	worker.bgw_notify_pid = MyProcPid;
	strlcpy(worker.bgw_library_name, "op_ledger", BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, "op_ledger_worker_main", BGW_MAXLEN);
	strlcpy(worker.bgw_name, "op_ledger worker", BGW_MAXLEN);
	strlcpy(worker.bgw_type, "op_ledger worker", BGW_MAXLEN);
	return RegisterDynamicBackgroundWorker(&worker, NULL);
}

/* Said once, until there was a process again. */
static void
complain(bool enough)
{
	if (!enough && !complained)
		ereport(WARNING, (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
						  errmsg("op_ledger found no free background worker slot"),
						  errdetail("Operations are recorded and wait."),
						  errhint("Raise max_worker_processes and restart the server.")));
	complained = !enough;
}

/* The first worker of a database finds out whether the extension is there; only
 * when it stays do the others follow. -1: nothing to start. */
static int
missing_worker(Oid database)
{
	bool has[OPL_WORKERS_MAX] = {false};
	bool stays = false;

	for (int i = 0; i < wake_slot_count(); i++)
	{
		SlotReport slot = wake_slot(i);

		if (slot.database != database || slot.state == SLOT_FREE)
			continue;
		has[slot.number] = true;
		stays = stays || (slot.number == 0 && slot.state == SLOT_RUNNING);
	}
	if (!has[0])
		return 0;
	for (int number = 1; stays && number < opl_workers; number++)
	{
		if (!has[number])
			return number;
	}
	return -1;
}

/* False: no process was to be had. */
static bool
start_one(Known *entry, int number, int64 now)
{
	int slot = wake_slot_take(entry->database, number);

	if (slot < 0)
		return false;
	entry->started_at = now;
	if (start_worker(slot))
		return true;
	wake_slot_free(slot);
	return false;
}

/* Starts what is due, a few at a time. False: no process was to be had. */
static bool
start_due(int64 now, int starting)
{
	for (int i = 0; i < nknown; i++)
	{
		Known *entry = &known[i];
		int    number;

		while (now >= entry->next_at && starting < PROBES &&
			   (number = missing_worker(entry->database)) >= 0 &&
			   !ddl_waits(entry->database))
		{
			if (!start_one(entry, number, now))
				return false;
			starting++;
		}
	}
	return true;
}

/* ------------------------------------------------------------------ the loop */

/* Milliseconds until something is due. */
static long
sleep_time(int64 now, bool short_of_slots)
{
	int64 next = now + ABSENT_WAIT;

	if (short_of_slots)
		return 1000;
	for (int i = 0; i < nknown; i++)
	{
		if (missing_worker(known[i].database) >= 0)
			next = Min(next, Max(known[i].next_at, now + 100 * INT64CONST(1000)));
	}
	return (long) ((next - now) / 1000) + 1;
}

/* Somebody committed a CREATE EXTENSION: all databases are due. */
static void
forget_absences(int64 now)
{
	asked_at = now;
	for (int i = 0; i < nknown; i++)
		known[i].next_at = Min(known[i].next_at, now);
}

static long
look_around(void)
{
	int64 now;
	bool  asked = wake_take_scan();
	bool  enough = true;
	long  sleep_ms;

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	now = clock_steady();
	scan_databases();
	if (asked)
		forget_absences(now);
	if (opl_enabled)
		enough = start_due(now, reap(now));
	else
		reap(now);
	complain(enough);
	sleep_ms = opl_enabled ? sleep_time(now, !enough) : 60 * 1000L;
	PopActiveSnapshot();
	CommitTransactionCommand();
	pgstat_report_stat(true);
	pgstat_report_activity(STATE_IDLE, NULL);
	return sleep_ms;
}

void
op_ledger_launcher_main(Datum unused)
{
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	wake_launcher_start();
	reactor_start(-1);
	for (;;)
	{
		long sleep_ms = look_around();

		(void) reactor_wait(sleep_ms, PG_WAIT_EXTENSION);
		CHECK_FOR_INTERRUPTS();
		if (ShutdownRequestPending)
			proc_exit(1); /* after 0 the postmaster would not start it again */
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
	}
}
