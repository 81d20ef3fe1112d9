/*
 * operation.c - op_operation: one row per operation, for ever.
 *
 * Inserted by op_submit(), where the unique key decides who was first. Updated by
 * whoever holds the row, and never deleted: sessions wait for it, the worker locks it
 * with SKIP LOCKED in a command before the one that writes. Rows that the worker holds
 * are known by their place.
 *
 * A state follows the arrows of rules/state.c. The guard trigger sees to that for
 * everybody; here it is asked before the row is written, so that a turn need not pay
 * for the trigger, which locks each row once more.
 */
#include "postgres.h"

#include "store/operation.h"

#include "base/clock.h"
#include "base/datum.h"
#include "base/errors.h"
#include "catalog/pg_type.h"
#include "store/agenda.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

static const ScannerColumn columns[] = {OPERATION_COLUMNS(SCANNER_COLUMN)};
static ScannerMap          map;

const ScannerTable operation_table = {.name = "op_operation",
									  .ncolumns = lengthof(columns),
									  .columns = columns,
									  .guard = "op_operation_guard",
									  .map = &map};

/* ------------------------------------------------------------------ reading */

static OplState
read_state(Scanner *s)
{
	char     name[NAMEDATALEN];
	OplState state;

	scanner_name(s, Operation_state, name, sizeof(name));
	if (!opl_state_parse(name, &state))
		elog(ERROR, "unknown state \"%s\"", name);
	return state;
}

static OplSeal
read_seal(Scanner *s)
{
	char    name[NAMEDATALEN];
	OplSeal seal;

	scanner_name(s, Operation_sealed, name, sizeof(name));
	opl_seal_parse(name, &seal);
	return seal;
}

static void
read_row(Scanner *s, LedgerOperation *out)
{
	out->op_id = scanner_text(s, Operation_op_id);
	out->action = scanner_text(s, Operation_action);
	out->provider = scanner_text(s, Operation_provider);
	out->op.state = read_state(s);
	out->op.tainted = scanner_bool(s, Operation_tainted);
	out->op.sealed = read_seal(s);
	out->op.contradiction = scanner_bool(s, Operation_contradiction);
	out->op.adopted = scanner_bool(s, Operation_adopted);
	out->op.generation = scanner_int(s, Operation_generation);
	out->op.attempts = scanner_int(s, Operation_attempts);
	out->op.tries = scanner_int(s, Operation_tries);
	out->op.trying_since = scanner_time(s, Operation_trying_since);
	out->op.first_sent_at = scanner_time(s, Operation_first_sent_at);
	out->op.last_sent_at = scanner_time(s, Operation_last_sent_at);
	out->op.not_after = OPL_NEVER;
	out->op.place = scanner_bigint(s, Operation_place);
	out->external_id = scanner_text(s, Operation_external_id);
	out->failed_ids = scanner_texts(s, Operation_failed_ids, &out->nfailed);
	out->reason = scanner_text(s, Operation_reason);
	out->args_hash = scanner_varlena(s, Operation_args_hash);
	out->created_at = scanner_time(s, Operation_created_at);
	out->lease_until = scanner_time(s, Operation_lease_until);
	out->xmin = scanner_xmin(s);
	out->row = scanner_row(s);
}

static LedgerOperation *
read_alloc(Scanner *s)
{
	LedgerOperation *operation = palloc0(sizeof(LedgerOperation));

	read_row(s, operation);
	return operation;
}

LedgerOperation *
operation_read(const Ledger *ledger, const char *op_id)
{
	Scanner         *s = scanner_open(ledger, &operation_table, SCANNER_READ);
	LedgerOperation *operation = scanner_find_text(s, op_id) ? read_alloc(s) : NULL;

	scanner_close(s);
	return operation;
}

LedgerOperation *
operation_read_at(const Ledger *ledger, const ItemPointerData *rows, int n)
{
	Scanner         *s = scanner_open(ledger, &operation_table, SCANNER_READ);
	LedgerOperation *found = palloc0(sizeof(LedgerOperation) * Max(n, 1));

	for (int i = 0; i < n; i++)
	{
		scanner_go(s, &rows[i]);
		read_row(s, &found[i]);
	}
	scanner_close(s);
	return found;
}

/* ------------------------------------------------------------------ locking */

/* Those that are there and can be locked. */
static LedgerOperation *
lock(const Ledger *ledger, char **op_ids, const ItemPointerData *were_at, int n,
	 LockWaitPolicy wait, int *count)
{
	Scanner         *s = scanner_open(ledger, &operation_table, SCANNER_LOCK);
	LedgerOperation *locked = palloc0(sizeof(LedgerOperation) * Max(n, 1));

	*count = 0;
	for (int i = 0; i < n; i++)
	{
		if (scanner_find_from(s, were_at ? &were_at[i] : NULL, op_ids[i]) &&
			scanner_lock(s, SCANNER_KEEP_KEY, wait))
			read_row(s, &locked[(*count)++]);
	}
	scanner_close(s);
	return locked;
}

LedgerOperation *
operation_lock(const Ledger *ledger, const char *op_id)
{
	char            *ids[] = {(char *) op_id};
	int              n;
	LedgerOperation *operation = lock(ledger, ids, NULL, 1, LockWaitBlock, &n);

	return n > 0 ? operation : NULL;
}

LedgerOperation *
operation_lock_free(const Ledger *ledger, char **op_ids, const ItemPointerData *were_at,
					int n, int *count)
{
	return lock(ledger, op_ids, were_at, n, LockWaitSkip, count);
}

/* ------------------------------------------------------------------- saving */

/* The objects that failed: one joins them, once. What is the operation's object from now
 * on is none of them: the machine takes none that failed, and a person knows better. */
static void
set_failed(Scanner *s, const char *joins, const char *leaves)
{
	int    n, left = 0;
	char **ids = scanner_texts(s, Operation_failed_ids, &n);
	char **all = palloc(sizeof(char *) * (n + 1));

	for (int i = 0; i < n; i++)
	{
		if (joins && strcmp(ids[i], joins) == 0)
			return;
		if (!leaves || strcmp(ids[i], leaves) != 0)
			all[left++] = ids[i];
	}
	if (joins)
		all[left++] = (char *) joins;
	if (left != n)
		scanner_set(s, Operation_failed_ids, left ? datum_texts(all, left) : (Datum) 0,
					left == 0);
}

/* Decisions follow the arrows; should one not, nothing is written. */
static void
check_arrow(Scanner *s, const LedgerChange *change)
{
	OplState from = read_state(s);
	OplState to = change->decision.after.state;

	if (from != to && !opl_state_may_become(from, to))
		ereport(ERROR, (errcode(OPL_ERR_ARROW),
						errmsg("operation \"%s\" cannot go from %s to %s", change->op_id,
							   opl_state_name(from), opl_state_name(to)),
						errdetail("op_transitions() lists what can happen.")));
}

/* An operation that is not marked must not be sent, so a trigger that keeps its state
 * as it was is an error. */
static ItemPointerData
update_row(Scanner *s, const LedgerChange *change)
{
	const char     *state = opl_state_name(change->decision.after.state);
	ItemPointerData row = scanner_update(s);

	if (!scanner_wrote(s, Operation_state, state))
		ereport(ERROR, (errcode(ERRCODE_TRIGGERED_ACTION_EXCEPTION),
						errmsg("a trigger kept operation \"%s\" from becoming %s",
							   change->op_id, state),
						errhint("\\d op_operation lists its triggers; none but "
								"op_ledger's may change a state.")));
	return row;
}

static void
set_place(Scanner *s, OplPlace place)
{
	scanner_set(s, Operation_place, Int64GetDatum(place), place == OPL_NOWHERE);
}

/* The present row, as the decision wants it; where it is now. */
static ItemPointerData
save_row(Scanner *s, const LedgerChange *change, TimestampTz now)
{
	const OplOperation *after = &change->decision.after;
	bool                sealed = after->sealed != OPL_SEAL_NONE;

	Assert(scanner_is(s, Operation_op_id, change->op_id));
	check_arrow(s, change);
	scanner_copy(s);
	scanner_set_text(s, Operation_state, opl_state_name(after->state));
	scanner_set_bool(s, Operation_tainted, after->tainted);
	scanner_set_text(s, Operation_sealed, sealed ? opl_seal_name(after->sealed) : NULL);
	scanner_set_bool(s, Operation_contradiction, after->contradiction);
	scanner_set_int(s, Operation_attempts, after->attempts);
	scanner_set_int(s, Operation_tries, after->tries);
	scanner_set_time(s, Operation_trying_since, after->trying_since);
	scanner_set_time(s, Operation_first_sent_at, after->first_sent_at);
	scanner_set_time(s, Operation_last_sent_at, after->last_sent_at);
	scanner_set_time(s, Operation_settled_at,
					 opl_state_ended(after->state) ? now : OPL_NEVER);
	scanner_set_text(s, Operation_reason, change->reason);
	set_place(s, after->place);
	if (change->external_id)
		scanner_set_text(s, Operation_external_id, change->external_id);
	if (change->failed_id || change->external_id)
		set_failed(s, change->failed_id, change->external_id);
	return update_row(s, change);
}

void
operation_save(const Ledger *ledger, LedgerChange *changes, int n, TimestampTz now)
{
	Scanner *s = scanner_open_update(ledger, &operation_table, OPERATION_SAVE);

	for (int i = 0; i < n; i++)
	{
		scanner_go(s, &changes[i].row);
		changes[i].row = save_row(s, &changes[i], now);
	}
	scanner_close(s);
}

/* By key, since the transaction may have changed the row after it was locked. */
static Scanner *
open_locked(const Ledger *ledger, const char *op_id, uint8 acts)
{
	Scanner *s = scanner_open_update(ledger, &operation_table, acts);

	if (!scanner_find_text(s, op_id))
		elog(ERROR, "operation \"%s\" is gone though it was locked", op_id);
	return s;
}

void
operation_save_one(const Ledger *ledger, const LedgerChange *change, TimestampTz now)
{
	Scanner *s = open_locked(ledger, change->op_id, OPERATION_SAVE);

	save_row(s, change, now);
	scanner_close(s);
}

void
operation_lease(const Ledger *ledger, const char *op_id, TimestampTz until)
{
	Scanner *s = open_locked(ledger, op_id, OPERATION_LEASE);

	scanner_copy(s);
	scanner_set_time(s, Operation_lease_until,
					 Max(scanner_time(s, Operation_lease_until), until));
	scanner_update(s);
	scanner_close(s);
}

/* A new generation has no object yet. */
void
operation_reissue(const Ledger *ledger, const LedgerOperation *before,
				  const OplDecision *decision, const LedgerRequest *rendered)
{
	int      generation = decision->after.generation;
	Scanner *s = open_locked(ledger, before->op_id, OPERATION_REISSUE);

	scanner_copy(s);
	scanner_set_int(s, Operation_generation, generation);
	scanner_set_bool(s, Operation_adopted, decision->after.adopted);
	scanner_set_text(s, Operation_external_id, NULL);
	scanner_update(s);
	scanner_close(s);
	request_insert_next(ledger, before->op_id, before->op.generation, generation,
						rendered);
}

/* What op_adopt() decides, and no more: what has ended ended when it did. Rows are
 * where they were locked, unless a trigger of an earlier one changed them. */
void
operation_adopt(const Ledger *ledger, const LedgerChange *changes, int n)
{
	Scanner *s = scanner_open_update(ledger, &operation_table, OPERATION_ADOPT);

	for (int i = 0; i < n; i++)
	{
		const LedgerChange *change = &changes[i];
		const OplOperation *after = &change->decision.after;

		if (!scanner_find_from(s, &change->row, change->op_id))
			elog(ERROR, "operation \"%s\" is gone though it was locked", change->op_id);
		check_arrow(s, change);
		scanner_copy(s);
		scanner_set_text(s, Operation_state, opl_state_name(after->state));
		scanner_set_bool(s, Operation_tainted, after->tainted);
		scanner_set_bool(s, Operation_adopted, after->adopted);
		scanner_set_time(s, Operation_first_sent_at, after->first_sent_at);
		scanner_set_time(s, Operation_last_sent_at, after->last_sent_at);
		scanner_set_text(s, Operation_reason, change->reason);
		set_place(s, after->place);
		if (change->lease_until)
			scanner_set_time(
				s, Operation_lease_until,
				Max(scanner_time(s, Operation_lease_until), change->lease_until));
		update_row(s, change);
	}
	scanner_close(s);
}

/* ---------------------------------------------------------------- inserting */

static bool
insert_row(Scanner *s, const LedgerBirth *b)
{
	scanner_new(s);
	scanner_set_text(s, Operation_op_id, b->op_id);
	scanner_set_text(s, Operation_action, b->action);
	scanner_set_text(s, Operation_provider, b->provider);
	scanner_set_text(s, Operation_state, opl_state_name(b->born.after.state));
	scanner_set_bool(s, Operation_tainted, false);
	scanner_set_bool(s, Operation_contradiction, false);
	scanner_set_bool(s, Operation_adopted, false);
	scanner_set_int(s, Operation_generation, 1);
	scanner_set_int(s, Operation_attempts, 0);
	scanner_set_int(s, Operation_tries, 0);
	scanner_set(s, Operation_args_hash, datum_bytes((const char *) b->args_hash, 32),
				false);
	scanner_set_text(s, Operation_run_id, b->run_id);
	scanner_set_text(s, Operation_lane, b->lane);
	scanner_set_text(s, Operation_submitted_by, b->submitted_by);
	scanner_set_time(s, Operation_created_at, clock_now());
	return scanner_insert_first(s);
}

static void
plan_first(const Ledger *ledger, const LedgerBirth *birth)
{
	LedgerChange born = {
		.op_id = birth->op_id, .provider = birth->provider, .decision = birth->born};

	if (birth->born.step != OPL_STEP_NONE)
		agenda_plan(ledger, &born, 1, 0);
}

bool
operation_insert(const Ledger *ledger, LedgerBirth *birth, OperationFreeze freeze,
				 const void *how, LedgerOperation **there)
{
	Scanner *s = scanner_open(ledger, &operation_table, SCANNER_INSERT_FIRST);
	bool     first = false;

	*there = NULL;
	if (scanner_find_text(s, birth->op_id))
		*there = read_alloc(s);
	else
	{
		freeze(birth, how);
		first = insert_row(s, birth);
		if (first)
			request_insert(s, birth);
	}
	scanner_close(s);
	if (first)
		plan_first(ledger, birth);
	return first;
}
