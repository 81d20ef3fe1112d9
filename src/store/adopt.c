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
#include "base/errors.h"
#include "store/finding.h"
#include "fmgr.h"
#include "funcapi.h"
#include "store/home.h"
#include "store/lease.h"
#include "store/ledger.h"
#include "miscadmin.h"
#include "postmaster/interrupt.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
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
decide(LedgerChange *change, const LedgerOperation *operation, bool guarded,
	   TimestampTz now)
{
	Action     *action = action_find(operation->action);
	OplPromises promises = promises_of(operation, action);

	memset(change, 0, sizeof(LedgerChange));
	change->op_id = operation->op_id;
	change->provider = operation->provider;
	change->decision =
		opl_adopt(&operation->op, &promises, operation->created_at, guarded, now);
	/* Clients of the other time line may still hold tickets. */
	if (action && action->spec->executor == EXECUTOR_CLIENT)
		change->lease_until = now + LEASE_MAX;
	change->reason =
		change->decision.reason ? change->decision.reason : operation->reason;
}

/* False: there are no more. */
static bool
adopt_some(Adoption *adoption, bool guarded, const char *actor, const char *note,
		   TimestampTz now)
{
	int              n;
	LedgerOperation *operations = ledger_adopt_next(BATCH_ROWS, CurrentMemoryContext, &n);
	LedgerChange    *changes;

	if (!operations)
		return false;
	changes = palloc(sizeof(LedgerChange) * n);
	for (int i = 0; i < n; i++)
	{
		decide(&changes[i], &operations[i], guarded, now);
		count(adoption, &changes[i].decision);
	}
	ledger_adopt_save(changes, n, actor, note);
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
adopt(Oid extension, bool guarded, const char *actor, const char *note)
{
	Adoption      adoption = {0};
	TimestampTz   now = GetCurrentTimestamp();
	HomeRow       here = home_here(extension);
	MemoryContext batch = AllocSetContextCreate(
		CurrentMemoryContext, "op_ledger adoption", ALLOCSET_DEFAULT_SIZES);
	MemoryContext outer = MemoryContextSwitchTo(batch);

	ledger_settle_home(&here, actor, now);
	ledger_event(NULL, actor, "adopt", note);
	while (adopt_some(&adoption, guarded, actor, note, now))
	{
		check_for_stop();
		MemoryContextReset(batch);
	}
	MemoryContextSwitchTo(outer);
	MemoryContextDelete(batch);
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
at_home(Oid extension, bool force)
{
	if (ledger_home_fault(extension) != HOME_OK || force)
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

	refuse_on_standby();
	InitMaterializedSRF(fcinfo, 0);
	ledger_begin(schema);
	ledger_lock_homes();
	if (!at_home(extension, force))
		adoption =
			adopt(extension, false, GetUserNameFromId(GetOuterUserId(), false), note);
	ledger_end();
	put_row(result, "lookup", adoption.lookups);
	put_row(result, "send", adoption.sends);
	put_row(result, "review", adoption.reviews);
	put_row(result, "failed", adoption.failed);
	wake_worker_at_commit();
	wake_waiters_at_commit();
	return (Datum) 0;
}
