/*
 * worker.c - the shell around dispatch: signals, connection, settings, errors.
 *
 *	  attach to the slot -> connect by oid -> new epoch -> loop:
 *	      reset latch -> interrupts -> wire -> one turn -> sleep
 *
 * It leaves when asked to stop, when the extension is not (or no longer) here,
 * and when DDL on the database waits for it; the launcher brings it back.
 */
#include "postgres.h"

#include "worker/worker.h"

#include "base/clock.h"
#include "base/compat.h"
#include "access/xact.h"
#include "catalog/pg_authid.h"
#include "worker/dispatch.h"
#include "worker/flight.h"
#include "base/guc.h"
#include "miscadmin.h"
#include "worker/pace.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "wire/reactor.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/procarray.h"
#include "storage/procsignal.h"
#include "tcop/tcopprot.h"
#include "wire/transport.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "base/wake.h"

/* A stop waits this long for answers that are under way. */
#define GRACE (1000 * INT64CONST(1000))
#define TRY_AGAIN_MS 10

#define TELL_AGAIN (60 * INT64CONST(1000000))

static volatile sig_atomic_t committing = false;

/* On its way out: as what, and until when answers are waited for. */
static bool    leaving = false;
static SlotEnd leaving_as;
static int64   leaving_until; /* by the steady clock */

/* ----------------------------------------------------------------- signals */

/* A fast shutdown must not wait for a standby that is gone: while a commit waits,
 * the stop is an interrupt as well, and the wait ends. */
static void
handle_sigterm(SIGNAL_ARGS)
{
	int saved = errno;

	ShutdownRequestPending = true;
	if (committing)
	{
		ProcDiePending = true;
		InterruptPending = true;
	}
	SetLatch(MyLatch);
	errno = saved;
}

/* A lock that is not to be had within lock_timeout comes as SIGINT; so does
 * pg_cancel_backend(), which must not end the wait for a standby: what would go out
 * afterwards is marked here alone. */
static void
handle_sigint(SIGNAL_ARGS)
{
	if (!committing)
		StatementCancelHandler(postgres_signal_arg);
}

static void
around_commit(bool begins)
{
	committing = begins;
	QueryCancelPending = false;
	if (!begins)
		ProcDiePending = false; /* the loop sees to the stop, in order */
	else if (ShutdownRequestPending)
	{
		ProcDiePending = true;
		InterruptPending = true;
	}
}

/* ---------------------------------------------------------------- settings */

/* ALTER DATABASE and ALTER ROLE reach this process, too; none of their settings
 * may change what a turn means. */
static void
pin_settings(void)
{
	static const char *const pinned[][2] = {
		{"role", "none"},
		{"default_transaction_read_only", "off"},
		{"default_transaction_isolation", "read committed"},
		{"default_transaction_deferrable", "off"},
		{"session_replication_role", "origin"},
		{"lock_timeout", "10ms"},
		{"statement_timeout", "0"},
		{"idle_in_transaction_session_timeout", "0"},
		{"row_security", "off"},
		{"search_path", "pg_catalog"},
		{"application_name", "op_ledger worker"},
		/* Plans that no statistics can tip: rows are reached by key. */
		{"enable_seqscan", "off"},
		{"enable_hashjoin", "off"},
		{"enable_mergejoin", "off"},
		{"enable_bitmapscan", "off"},
		{"plan_cache_mode", "force_generic_plan"},
		{"jit", "off"},
	};

	SetSessionAuthorization(BOOTSTRAP_SUPERUSERID, true);
	for (int i = 0; i < lengthof(pinned); i++)
		SetConfigOption(pinned[i][0], pinned[i][1], PGC_SUSET, PGC_S_OVERRIDE);
	if (GetConfigOption("transaction_timeout", true, false))
		SetConfigOption("transaction_timeout", "0", PGC_SUSET, PGC_S_OVERRIDE);
}

/* ------------------------------------------------------------------ leaving */

static void
leave(SlotEnd end)
{
	wake_leaving(end);
	proc_exit(0);
}

static void
wait_for_answers(void)
{
	while (flight_on_wire() > 0 && clock_steady() < leaving_until)
	{
		long left = (long) ((leaving_until - clock_steady()) / 1000) + 1;
		long wire = transport_timeout();

		(void) reactor_wait(wire < 0 ? left : Min(left, wire), PG_WAIT_EXTENSION);
		flight_collect();
	}
}

/* No new claims, a short grace for answers, and the rest is unknown. When that
 * fails the loop comes here again, until the grace is over: what was not written
 * then, the next worker finds by its epoch. */
static void
leave_in_order(SlotEnd end)
{
	int64 now = clock_steady();

	if (!leaving)
	{
		leaving = true;
		leaving_as = end;
		leaving_until = now + GRACE;
		wait_for_answers();
		dispatch_abandon();
	}
	else if (now < leaving_until)
	{
		(void) reactor_wait(TRY_AGAIN_MS, PG_WAIT_EXTENSION);
		dispatch_abandon();
	}
	leave(leaving_as);
}

static void
handle_interrupts(void)
{
	CHECK_FOR_INTERRUPTS();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
		pace_share(wake_number(), opl_workers);
	}
	if (leaving || ShutdownRequestPending || !opl_enabled || wake_dismissed() ||
		wake_number() >= opl_workers)
		leave_in_order(END_STOPPED);
}

/* ----------------------------------------------------------------- the loop */

static void
one_turn(void)
{
	switch (dispatch_turn(true))
	{
		case TURN_DONE:
			break;
		case TURN_NO_EXTENSION:
			leave(END_ABSENT);
			break;
		case TURN_YIELD:
			leave_in_order(END_YIELDED);
			break;
	}
}

/* True: somebody woke us. */
static bool
sleep_until(long turn_ms)
{
	long wire_ms = transport_timeout();

	if (wire_ms >= 0 && wire_ms < turn_ms)
		turn_ms = wire_ms;
	return (reactor_wait(turn_ms, PG_WAIT_EXTENSION) & REACTOR_LATCH) != 0;
}

static void
loop(void)
{
	bool woken = true;

	for (;;)
	{
		long wait_ms;

		handle_interrupts();
		flight_collect();
		wait_ms = dispatch_wait(woken);
		if (wait_ms > 0)
		{
			woken = sleep_until(wait_ms) || woken;
			continue;
		}
		woken = false;
		one_turn();
	}
}

/* One line a minute per cause: a turn that fails is tried again soon. */
static bool
worth_telling(int sqlstate)
{
	static int   last = 0;
	static int64 told_at = 0;
	int64        now = clock_steady();

	if (sqlstate == ERRCODE_LOCK_NOT_AVAILABLE ||
		(sqlstate == last && now - told_at < TELL_AGAIN))
		return false;
	last = sqlstate;
	told_at = now;
	return true;
}

/* What core's own loops do after an error; transfers in flight stay in flight. */
static void
recover(void)
{
	ErrorData *error;

	HOLD_INTERRUPTS();
	MemoryContextSwitchTo(TopMemoryContext);
	error = CopyErrorData();
	if (worth_telling(error->sqlerrcode))
		EmitErrorReport();
	AbortCurrentTransaction();
	LWLockReleaseAll();
	pgstat_report_wait_end();
	pgstat_report_activity(STATE_IDLE, NULL);
	FlushErrorState();
	around_commit(false);
	dispatch_failed(error->sqlerrcode, error->message);
	FreeErrorData(error);
	RESUME_INTERRUPTS();
}

static void
run(void)
{
	sigjmp_buf on_error;

	if (sigsetjmp(on_error, 1) != 0)
	{
		error_context_stack = NULL;
		recover();
	}
	PG_exception_stack = &on_error;
	loop();
}

/* A start that would wait for a lock is put off, as a turn is: the commit of
 * CREATE EXTENSION wakes the launcher before it lets go of its locks. */
static TurnResult
start(int64 *epoch)
{
	TurnResult result;

	PG_TRY();
	{
		result = dispatch_start(epoch);
	}
	PG_CATCH();
	{
		if (geterrcode() != ERRCODE_LOCK_NOT_AVAILABLE)
			PG_RE_THROW();
		FlushErrorState();
		result = TURN_YIELD; /* leaving ends the transaction */
	}
	PG_END_TRY();
	return result;
}

void
op_ledger_worker_main(Datum slot)
{
	Oid   database;
	int64 epoch;

	pqsignal(SIGTERM, handle_sigterm);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGINT, handle_sigint);
	BackgroundWorkerUnblockSignals();

	database = wake_attach(DatumGetInt32(slot));
	BackgroundWorkerInitializeConnectionByOid(database, InvalidOid, 0);
	pin_settings();
	dispatch_committing = around_commit;
	switch (start(&epoch))
	{
		case TURN_DONE:
			break;
		case TURN_NO_EXTENSION:
			leave(END_ABSENT);
			break;
		case TURN_YIELD:
			leave(END_YIELDED);
			break;
	}
	wake_running(epoch);
	pace_share(wake_number(), opl_workers);
	transport_start();
	reactor_start(transport_descriptor());
	run();
}
