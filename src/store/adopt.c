/*
 * adopt.c - op_adopt, and a fail-over that adopts by itself.
 *
 * Whatever another time line may have sent nobody here can know: opl_adopt()
 * says what follows for each operation. This file writes it, in one transaction,
 * some hundred rows at a time; rows are locked before their place in the agenda
 * is replaced, so that a verb or a submit in another session is not lost.
 */
#include "postgres.h"

#include "base/compat.h"
#include "store/adopt.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "store/actions.h"
#include "store/agenda.h"
#include "base/errors.h"
#include "store/event.h"
#include "store/finding.h"
#include "fmgr.h"
#include "funcapi.h"
#include "store/home.h"
#include "store/lease.h"
#include "store/spi.h"
#include "miscadmin.h"
#include "postmaster/interrupt.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "base/wake.h"

PG_FUNCTION_INFO_V1(op_adopt);

#define BATCH_ROWS 500

/* ---------------------------------------------------------------- deciding */

/* Without its action nothing can be sent or asked: a person decides. */
static OplPromises
promises_of(const LedgerOperation *operation, const Action *action)
{
	OplPromises none = {.ttl = 0};

	return action ? finding_promises(action->spec, operation, NULL) : none;
}

static void
count(Adoption *adoption, const OplDecision *decision)
{
	if (decision->after.state == OPL_FAILED)
		adoption->failed++;
	else if (decision->after.state == OPL_REVIEW)
		adoption->reviews++;
	else if (decision->step == OPL_STEP_SEND)
		adoption->sends++;
	else
		adoption->lookups++;
}

static void
decide(const Ledger *ledger, LedgerChange *change, const LedgerOperation *operation,
	   bool guarded, OplClock clock)
{
	Action     *action = action_find(ledger, operation->action);
	OplPromises promises = promises_of(operation, action);

	memset(change, 0, sizeof(LedgerChange));
	change->op_id = operation->op_id;
	change->provider = operation->provider;
	change->decision =
		opl_adopt(&operation->op, &promises, operation->created_at, guarded, clock);
	/* Clients of the other time line may still hold tickets. */
	if (action && action->spec->executor == EXECUTOR_CLIENT)
		change->lease_until = clock.now + LEASE_MAX;
	change->reason =
		change->decision.reason ? change->decision.reason : operation->reason;
}

/* All that has not ended for good, locked, some at a time; NULL: no more. The cursor's
 * snapshot is older than what we write, so no row is met twice. */
static LedgerOperation *
next_operations(const Ledger *ledger, int *count)
{
	static const SpiStatement scan = {
		"SELECT o.ctid, (SELECT r.not_after FROM @.op_request AS r"
		"                 WHERE r.op_id = o.op_id AND r.generation = o.generation)"
		"  FROM @.op_operation AS o WHERE o.state NOT IN ('confirmed', 'cancelled')"
		" FOR NO KEY UPDATE OF o"};
	ItemPointerData *rows = palloc(sizeof(ItemPointerData) * BATCH_ROWS);
	TimestampTz     *not_after = palloc(sizeof(TimestampTz) * BATCH_ROWS);
	LedgerOperation *operations;
	bool             null;

	*count = (int) spi_fetch(ledger, &scan, "op_ledger adoption", BATCH_ROWS);
	for (int i = 0; i < *count; i++)
	{
		rows[i] = *(ItemPointer) DatumGetPointer(spi_datum(i, 1, &null));
		not_after[i] = spi_time(i, 2);
	}
	spi_done();
	if (*count == 0)
		return NULL;
	operations = operation_read_at(ledger, rows, *count);
	for (int i = 0; i < *count; i++)
		operations[i].op.not_after = not_after[i];
	return operations;
}

/* A row of the agenda that a copy brought along is replaced, never updated. What has
 * ended is in no agenda, and nothing happened to it. */
static void
save(const Ledger *ledger, LedgerChange *changes, int n, const char *actor,
	 const char *note)
{
	char **ids = palloc(sizeof(char *) * n);
	int    living = 0;

	for (int i = 0; i < n; i++)
	{
		if (!opl_state_ended(changes[i].decision.after.state))
			ids[living++] = (char *) changes[i].op_id;
	}
	operation_adopt(ledger, changes, n);
	agenda_remove(ledger, ids, living);
	agenda_plan(ledger, changes, n, 0);
	event_insert_many(ledger, ids, living, actor, "adopt", note);
}

/* False: there are no more. */
static bool
adopt_some(const Ledger *ledger, Adoption *adoption, bool guarded, const char *actor,
		   const char *note, OplClock clock)
{
	int              n;
	LedgerOperation *operations = next_operations(ledger, &n);
	LedgerChange    *changes;

	if (!operations)
		return false;
	changes = palloc(sizeof(LedgerChange) * n);
	for (int i = 0; i < n; i++)
	{
		decide(ledger, &changes[i], &operations[i], guarded, clock);
		count(adoption, &changes[i].decision);
	}
	save(ledger, changes, n, actor, note);
	return true;
}

/* A worker that is told to stop must not finish a hundred thousand rows first. */
static void
check_for_stop(void)
{
	CHECK_FOR_INTERRUPTS();
	if (ShutdownRequestPending)
		ereport(ERROR, (errcode(ERRCODE_ADMIN_SHUTDOWN),
						errmsg("adoption ends: the server is asked to stop")));
}

Adoption
adopt(const Ledger *ledger, Oid extension, bool guarded, const char *actor,
	  const char *note)
{
	Adoption      adoption = {0};
	OplClock      clock = finding_clock(NULL);
	HomeRow       here = home_here(extension);
	Ledger        batch = *ledger; /* what is read lasts as long as its batch */
	MemoryContext outer;

	batch.memory = AllocSetContextCreate(ledger->memory, "op_ledger adoption",
										 ALLOCSET_DEFAULT_SIZES);
	outer = MemoryContextSwitchTo(batch.memory);
	home_settle(&batch, &here, actor, clock.now);
	event_catch_up(&batch);
	event_insert(&batch, NULL, actor, "adopt", note);
	while (adopt_some(&batch, &adoption, guarded, actor, note, clock))
	{
		check_for_stop();
		MemoryContextReset(batch.memory);
	}
	MemoryContextSwitchTo(outer);
	MemoryContextDelete(batch.memory);
	return adoption;
}

/* ------------------------------------------------------------------ for SQL */

static void
refuse_on_standby(void)
{
	if (RecoveryInProgress())
		ereport(ERROR, (errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
						errmsg("op_adopt() cannot run on a standby"),
						errdetail("Its primary is the ledger's home."),
						errhint("Promote it first, and only when its primary has "
								"stopped for good.")));
	PreventCommandIfReadOnly("op_adopt()");
}

/* Nothing to take over; a second call is harmless. */
static bool
at_home(const Ledger *ledger, Oid extension, bool force)
{
	if (home_fault(ledger, extension) != HOME_OK || force)
		return false;
	ereport(NOTICE,
			(errmsg("this is the ledger's home already; nothing was changed"),
			 errhint("A snapshot of the disk cannot be told from its original: after "
					 "restoring one, call op_adopt(…, force => true).")));
	return true;
}

static void
put_row(ReturnSetInfo *result, const char *follows, int64 operations)
{
	Datum values[] = {CStringGetTextDatum(follows), Int64GetDatum(operations)};
	bool  nulls[] = {false, false};

	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

Datum
op_adopt(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	const char    *note = PG_ARGISNULL(0) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(0));
	bool           force = !PG_ARGISNULL(1) && PG_GETARG_BOOL(1);
	Adoption       adoption = {0};
	Oid            schema;
	Oid            extension = home_extension(&schema);
	Ledger         ledger;

	refuse_on_standby();
	InitMaterializedSRF(fcinfo, 0);
	ledger = ledger_open(schema);
	home_lock(&ledger);
	if (!at_home(&ledger, extension, force))
		adoption = adopt(&ledger, extension, false,
						 GetUserNameFromId(GetOuterUserId(), false), note);
	put_row(result, "lookup", adoption.lookups);
	put_row(result, "send", adoption.sends);
	put_row(result, "review", adoption.reviews);
	put_row(result, "failed", adoption.failed);
	wake_worker_at_commit();
	wake_waiters_at_commit();
	return (Datum) 0;
}
