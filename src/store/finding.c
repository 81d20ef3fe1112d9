/*
 * finding.c - judgement and operation -> finding.
 */
#include "postgres.h"

#include "store/finding.h"

#include "base/clock.h"
#include "base/wake.h"
#include "store/agenda.h"
#include "store/attempt.h"

#include "common/pg_prng.h"
#include "utils/memutils.h"

OplPromises
finding_promises(const Spec *spec, const LedgerOperation *operation,
				 const Judgement *judgement)
{
	OplPromises promises = spec->promises;
	bool        known = operation->external_id != NULL ||
				 (judgement != NULL && judgement->external_id != NULL);

	/* A client may send until its lease has run out, whenever that was claimed. */
	if (spec->executor == EXECUTOR_CLIENT && operation->lease_until != OPL_NEVER &&
		operation->op.last_sent_at != OPL_NEVER)
		promises.margin =
			Max(promises.margin, operation->lease_until - operation->op.last_sent_at);
	promises.recipe = promises.recipe || (spec->poll_path != NULL && known);
	return promises;
}

Subject
finding_subject(const LedgerOperation *operation, const LedgerRequest *request)
{
	return (Subject){.base_url = request->base_url,
					 .name_space = request->name_space,
					 .key = request->key,
					 .op_id = operation->op_id,
					 .generation = operation->op.generation,
					 .args = request->args,
					 .external_id = operation->external_id};
}

/* A list shows more than one object does; so it is preferred, but for what is
 * known and only not final. */
bool
finding_polls(const Spec *spec, const LedgerOperation *operation, OplState state)
{
	if (spec->poll_path == NULL || operation->external_id == NULL)
		return false;
	return state == OPL_ACCEPTED || !spec->promises.recipe;
}

OplClock
finding_clock(int64 *steady)
{
	ClockReading r = clock_read();

	if (steady != NULL)
		*steady = r.steady;
	return (OplClock){r.now, r.steady_since, r.set_back_from, r.set_back_by};
}

static bool
has_failed(const LedgerOperation *operation, const char *id)
{
	for (int i = 0; i < operation->nfailed; i++)
	{
		if (strcmp(operation->failed_ids[i], id) == 0)
			return true;
	}
	return false;
}

static OplObject
object_of(const LedgerOperation *operation, const char *id)
{
	if (!id || !operation->external_id || has_failed(operation, operation->external_id))
		return OPL_OBJECT_NONE;
	return strcmp(operation->external_id, id) == 0 ? OPL_OBJECT_SAME : OPL_OBJECT_OTHER;
}

/* A send was answered 2xx, and what came of it is not known by our marker: it did not
 * carry it, or nothing in the list carries any. Asked of what is on record, so that
 * late answers count. */
static bool
may_be_unseen(const Ledger *ledger, const LedgerOperation *operation,
			  const Judgement *judgement)
{
	const char *answer =
		attempt_answered(ledger, operation->op_id, operation->op.generation);

	return answer != NULL && (judgement->unmarked || strcmp(answer, "no_marker") == 0 ||
							  strcmp(answer, "foreign_marker") == 0);
}

OplFinding
finding_of(const Ledger *ledger, const LedgerOperation *operation,
		   const Judgement *judgement, OplKind kind, TimestampTz started_at)
{
	const char *id = judgement->external_id;
	OplFinding  finding = {.verdict = judgement->verdict,
						   .kind = kind,
						   .keyed = judgement->keyed,
						   .started_at = started_at,
						   .retry_at = judgement->retry_at,
						   .object = object_of(operation, id),
						   .object_failed = id && has_failed(operation, id),
						   .same_generation = judgement->same_generation,
						   .unmarked = judgement->unmarked,
						   .dice = pg_prng_double(&pg_global_prng_state)};

	if (judgement->verdict == OPL_V_ABSENT)
		finding.unmarked = may_be_unseen(ledger, operation, judgement);
	return finding;
}

/* What sealed an operation says more than that a lookup found nothing. */
static bool
says_less(const Judgement *judgement, const OplDecision *decision)
{
	return decision->after.sealed != OPL_SEAL_NONE &&
		   (judgement->verdict == OPL_V_ABSENT ||
			judgement->verdict == OPL_V_INCONCLUSIVE);
}

/* The word for people: the decision's own, or what the evidence said. */
static const char *
reason_of(const Judgement *judgement, const OplDecision *decision, const char *before)
{
	if (decision->reason || decision->after.state == OPL_CONFIRMED)
		return decision->reason;
	if (decision->after.state == OPL_FAILED && judgement->verdict == OPL_V_REJECTED)
		return psprintf("rejected: %s", judgement->reason);
	return says_less(judgement, decision) ? before : judgement->reason;
}

void
finding_apply(LedgerChange *change, const Judgement *judgement)
{
	const OplDecision *decision = &change->decision;

	if (decision->moved)
		change->reason = reason_of(judgement, decision, change->reason);
	change->external_id = decision->take_object ? judgement->external_id : NULL;
	change->failed_id = decision->note_failed ? judgement->external_id : NULL;
}

/* As long as the operation lasts. */
static char *
kept(const LedgerOperation *operation, const char *text)
{
	return text ? MemoryContextStrdup(GetMemoryChunkContext((void *) operation), text)
				: NULL;
}

void
finding_store(const Ledger *ledger, LedgerOperation *operation,
			  const OplDecision *decision, const Judgement *judgement, bool for_client,
			  TimestampTz now)
{
	LedgerChange change = {.op_id = operation->op_id,
						   .row = operation->row,
						   .provider = operation->provider,
						   .decision = *decision,
						   .reason = operation->reason,
						   .for_client = for_client};

	finding_apply(&change, judgement);
	operation_save_one(ledger, &change, now);
	operation->op = decision->after;
	operation->reason = kept(operation, change.reason);
	if (change.external_id != NULL)
		operation->external_id = kept(operation, change.external_id);
	if (!decision->moved)
		return;
	agenda_remove(ledger, &operation->op_id, 1);
	if (decision->step != OPL_STEP_NONE)
		agenda_plan(ledger, &change, 1, 0);
	wake_worker_at_commit();
	wake_waiters_at_commit();
}
