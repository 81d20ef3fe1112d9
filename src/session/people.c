/*
 * people.c - what people do: cancel, approve, reject, resolve, recheck, reissue.
 *
 * Each verb locks the operation first and asks decide.c, so that of two sessions,
 * or a session and the worker, one acts and the other sees what was done. It
 * names actor and note in op_event, and never updates op_due: SKIP LOCKED would
 * wait for it all the same.
 */
#include "postgres.h"

#include "base/clock.h"
#include "base/compat.h"
#include "store/actions.h"
#include "store/agenda.h"
#include "base/errors.h"
#include "store/event.h"
#include "store/finding.h"
#include "fmgr.h"
#include "spec/freeze.h"
#include "store/operation.h"
#include "miscadmin.h"
#include "session/receipt.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"
#include "base/wake.h"

PG_FUNCTION_INFO_V1(_op_actor);
PG_FUNCTION_INFO_V1(op_cancel);
PG_FUNCTION_INFO_V1(op_resolve);
PG_FUNCTION_INFO_V1(op_recheck);
PG_FUNCTION_INFO_V1(op_reissue);
PG_FUNCTION_INFO_V1(op_approve);
PG_FUNCTION_INFO_V1(op_reject);
PG_FUNCTION_INFO_V1(op_digest);

/* What a verb is about. */
typedef struct Matter
{
	Ledger           ledger;
	LedgerOperation *operation;
	LedgerRequest   *request; /* of its generation; NULL: purged */
	Action          *action;
	OplPromises      promises; /* as they are for this operation */
	OplClock         clock;
} Matter;

/* How an error speaks of a verb. */
typedef struct VerbWords
{
	const char *done;
	const char *from; /* the states it starts from */
} VerbWords;

static const VerbWords to_resolve = {"resolved", "unknown, accepted or in review"};
static const VerbWords to_fail = {"resolved as failed", "unknown, accepted or in review"};
static const VerbWords to_recheck = {"rechecked", "unknown, accepted or in review"};
static const VerbWords to_reissue = {"reissued", "failed"};
static const VerbWords to_approve = {"approved", "held"};
static const VerbWords to_reject = {"rejected", "held"};

/* SET ROLE counts, the rights of a SECURITY DEFINER function do not. */
static const char *
actor(void)
{
	return GetUserNameFromId(GetOuterUserId(), false);
}

Datum
_op_actor(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(actor()));
}

static char *
text_argument(FunctionCallInfo fcinfo, int n)
{
	return PG_ARGISNULL(n) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(n));
}

/* Whoever overrules the machine says why. */
static char *
note_argument(FunctionCallInfo fcinfo, int n, const VerbWords *words)
{
	char *note = text_argument(fcinfo, n);

	if (note == NULL || *canon_trim(note) == '\0')
		ereport(ERROR, (errcode(OPL_ERR_ARGUMENT),
						errmsg("operation \"%s\" cannot be %s without a note",
							   op_id_argument(fcinfo), words->done),
						errhint("Say why; the note stays in op_event.")));
	return note;
}

/* ---------------------------------------------------------- begin and end */

/* Locks the operation, and reads all that decisions are made from. */
static Matter
begin_matter(FunctionCallInfo fcinfo)
{
	char  *op_id = op_id_argument(fcinfo);
	Matter m = {0};

	m.ledger = ledger_open(get_func_namespace(fcinfo->flinfo->fn_oid));
	m.operation = operation_lock(&m.ledger, op_id);
	if (m.operation == NULL)
		no_such_operation(op_id);
	m.action = action_get(&m.ledger, m.operation->action);
	m.promises = finding_promises(m.action->spec, m.operation, NULL);
	m.request = request_read(&m.ledger, op_id, m.operation->op.generation);
	if (m.request != NULL)
		m.operation->op.not_after = m.request->not_after;
	m.clock = finding_clock(NULL);
	return m;
}

/* The next step, if there is one, is the only one: delete and insert. */
static void
plan(const Ledger *ledger, LedgerChange *change)
{
	char *ids[] = {(char *) change->op_id};

	agenda_remove(ledger, ids, 1);
	if (change->decision.step == OPL_STEP_NONE)
		return;
	agenda_plan(ledger, change, 1, 0);
	wake_worker_at_commit();
}

static void
store(const Matter *m, const OplDecision *decision, const char *external_id,
	  const char *reason)
{
	LedgerOperation *operation = m->operation;
	LedgerChange     change = {.op_id = operation->op_id,
							   .row = operation->row,
							   .provider = operation->provider,
							   .decision = *decision,
							   .external_id = external_id,
							   .reason = reason};

	operation_save_one(&m->ledger, &change, clock_now());
	plan(&m->ledger, &change);
	wake_waiters_at_commit();
	operation->op = decision->after;
	operation->reason = (char *) reason;
	if (external_id != NULL)
		operation->external_id = (char *) external_id;
}

static const char *
reason_of(const OplDecision *decision, const LedgerOperation *operation)
{
	return decision->reason ? decision->reason : operation->reason;
}

/* A request that is not to leave yet does not leave for a person's word. */
static TimestampTz
not_before(const Matter *m)
{
	return m->request != NULL ? m->request->not_before : OPL_NEVER;
}

static Datum
receipt(FunctionCallInfo fcinfo, const Matter *m, const char *message)
{
	TimestampTz due_at = agenda_due_at(&m->ledger, m->operation->op_id);

	PG_RETURN_DATUM(receipt_datum(fcinfo, m->operation, false, due_at, message));
}

/* --------------------------------------------------------------- refusals */

static _Noreturn void
refuse_state(const Matter *m, const VerbWords *words)
{
	ereport(
		ERROR,
		(errcode(OPL_ERR_STATE),
		 errmsg("operation \"%s\" is %s and cannot be %s", m->operation->op_id,
				opl_state_name(m->operation->op.state), words->done),
		 errdetail("Only an operation that is %s can be; nothing was changed.",
				   words->from),
		 errhint("Somebody may have been faster: op_timeline() shows who did what.")));
	pg_unreachable();
}

static _Noreturn void
refuse_early(const Matter *m, const VerbWords *words)
{
	const OplOperation *op = &m->operation->op;
	OplMoment           quiet_at = opl_quiet_at(op, &m->promises, m->clock);

	ereport(
		ERROR,
		(errcode(OPL_ERR_STATE),
		 errmsg("operation \"%s\" cannot be %s before %s", m->operation->op_id,
				words->done, timestamptz_to_str(quiet_at)),
		 errdetail("Until then the request that was last sent may still take effect."),
		 errhint("Wait until then; op_recheck() has the provider asked.")));
	pg_unreachable();
}

static _Noreturn void
refuse_purged(const Matter *m, const VerbWords *words)
{
	ereport(ERROR,
			(errcode(OPL_ERR_STATE),
			 errmsg("operation \"%s\" cannot be %s: its request was purged",
					m->operation->op_id, words->done),
			 errdetail("op_purge() removed what would have to be sent."),
			 errhint("Submit a new operation under another id, if it is still wanted.")));
	pg_unreachable();
}

static void
check(OplVerb verb, const Matter *m, const VerbWords *words)
{
	switch (verb)
	{
		case OPL_VERB_OK:
			return;
		case OPL_VERB_NOT_QUIET:
			refuse_early(m, words);
		case OPL_VERB_NO_EXTERNAL_ID:
			ereport(ERROR,
					(errcode(OPL_ERR_ARGUMENT),
					 errmsg("operation \"%s\" cannot be confirmed without an external id",
							m->operation->op_id),
					 errhint("Pass the provider's name for the object that was found.")));
			break;
		default:
			refuse_state(m, words);
	}
}

/* ----------------------------------------------------------------- cancel */

/* An application's verb as well: too late is an answer, not an error. */
Datum
op_cancel(PG_FUNCTION_ARGS)
{
	char       *op_id = op_id_argument(fcinfo);
	Matter      m = {0};
	OplDecision decision;
	const char *message = NULL;

	m.ledger = ledger_open(get_func_namespace(fcinfo->flinfo->fn_oid));
	m.operation = operation_lock(&m.ledger, op_id);
	if (m.operation == NULL)
		no_such_operation(op_id);
	switch (opl_cancel(&m.operation->op, &decision))
	{
		case OPL_VERB_OK:
			store(&m, &decision, NULL, reason_of(&decision, m.operation));
			event_insert(&m.ledger, op_id, actor(), "cancel", text_argument(fcinfo, 1));
			break;
		case OPL_VERB_TOO_LATE:
			message = "too late: it may have been sent, the outcome is pending";
			break;
		default: /* it has ended, and the receipt says how */
			break;
	}
	return receipt(fcinfo, &m, message);
}

/* ---------------------------------------------------------------- resolve */

static OplState
outcome_argument(FunctionCallInfo fcinfo)
{
	char    *name = text_argument(fcinfo, 1);
	OplState outcome;

	if (name != NULL && opl_state_parse(name, &outcome) &&
		(outcome == OPL_CONFIRMED || outcome == OPL_FAILED || outcome == OPL_UNKNOWN))
		return outcome;
	ereport(ERROR,
			(errcode(OPL_ERR_ARGUMENT),
			 errmsg("operation \"%s\" cannot be resolved as %s", op_id_argument(fcinfo),
					name ? name : "NULL"),
			 errhint("Say confirmed, failed, or unknown to let the machine go on.")));
	pg_unreachable();
}

static char *
external_id_argument(FunctionCallInfo fcinfo, OplState outcome)
{
	char *external_id = text_argument(fcinfo, 2);

	if (external_id != NULL && *external_id == '\0')
		external_id = NULL;
	if (external_id != NULL && outcome != OPL_CONFIRMED)
		ereport(
			ERROR,
			(errcode(OPL_ERR_ARGUMENT),
			 errmsg(
				 "operation \"%s\" cannot have an external id when it is resolved as %s",
				 op_id_argument(fcinfo), opl_state_name(outcome)),
			 errhint("Only what happened has one; write what you saw into the note.")));
	return external_id;
}

Datum
op_resolve(PG_FUNCTION_ARGS)
{
	OplState         outcome = outcome_argument(fcinfo);
	char            *external_id = external_id_argument(fcinfo, outcome);
	char            *note = note_argument(fcinfo, 3, &to_resolve);
	Matter           m = begin_matter(fcinfo);
	const VerbWords *words = outcome == OPL_FAILED ? &to_fail : &to_resolve;
	OplDecision      decision;
	bool             named = external_id != NULL || m.operation->external_id != NULL;

	check(opl_resolve(&m.operation->op, &m.promises, outcome, named, m.clock, &decision),
		  &m, words);
	if (decision.step != OPL_STEP_NONE && m.request == NULL)
		refuse_purged(&m, words);
	/* What is confirmed without a name is the object on record. */
	store(&m, &decision,
		  decision.take_object && !external_id ? m.operation->external_id : external_id,
		  reason_of(&decision, m.operation));
	event_insert(&m.ledger, m.operation->op_id, actor(),
				 psprintf("resolve %s%s%s", opl_state_name(outcome),
						  external_id ? " " : "", external_id ? external_id : ""),
				 note);
	return receipt(fcinfo, &m, NULL);
}

/* ---------------------------------------------------------------- recheck */

static void
check_recheck(const Matter *m, OplVerb verb)
{
	if (verb == OPL_VERB_WRONG_STATE)
		refuse_state(m, &to_recheck);
	if (verb == OPL_VERB_CONTRADICTION)
		ereport(ERROR,
				(errcode(OPL_ERR_STATE),
				 errmsg("operation \"%s\" cannot be rechecked: what is known of it "
						"contradicts itself",
						m->operation->op_id),
				 errhint("Look at op_review and at the provider, then op_resolve().")));
	if (m->request == NULL)
		refuse_purged(m, &to_recheck);
	if (verb == OPL_VERB_NO_LOOKUP)
		ereport(ERROR, (errcode(OPL_ERR_STATE),
						errmsg("operation \"%s\" cannot be rechecked: action \"%s\" has "
							   "no lookup",
							   m->operation->op_id, m->operation->action),
						errhint("Ask the provider yourself, then op_resolve().")));
}

/* It has left the agenda, as after an error: only a lookup brings it back. */
static void
back_on_agenda(const Matter *m, const OplDecision *decision)
{
	LedgerChange change = {.op_id = m->operation->op_id,
						   .provider = m->operation->provider,
						   .decision = *decision};

	agenda_plan(&m->ledger, &change, 1, 0);
	wake_worker_at_commit();
}

Datum
op_recheck(PG_FUNCTION_ARGS)
{
	Matter      m = begin_matter(fcinfo);
	OplDecision decision;

	check_recheck(&m, opl_recheck(&m.operation->op, &m.promises, m.clock.now, &decision));
	if (agenda_due_at(&m.ledger, m.operation->op_id) == OPL_NEVER)
		back_on_agenda(&m, &decision);
	else
	{
		agenda_nudge(&m.ledger, m.operation->op_id);
		wake_nudge_at_commit();
	}
	event_insert(&m.ledger, m.operation->op_id, actor(), "recheck", NULL);
	return receipt(fcinfo, &m, "the provider is asked soon");
}

/* ---------------------------------------------------------------- reissue */

static void
check_reissue(const Matter *m)
{
	if (m->request == NULL)
		refuse_purged(m, &to_reissue);
	if (m->request->not_after != OPL_NEVER && m->clock.now >= m->request->not_after)
		ereport(
			ERROR,
			(errcode(OPL_ERR_STATE),
			 errmsg("operation \"%s\" cannot be reissued: its not_after %s has passed",
					m->operation->op_id, timestamptz_to_str(m->request->not_after)),
			 errhint("Submit a new operation under another id, if it is still "
					 "wanted.")));
}

/* The same arguments under the next key and marker, to where the provider is now. Its
 * namespace stays, so that objects of all generations are known for ours. */
static LedgerRequest
render_again(const Matter *m, int generation)
{
	LedgerRequest next = *m->request;
	Frozen        frozen;

	profile_check_args(m->action->spec, m->action->name, next.args);
	profile_freeze(m->action->spec, next.name_space, m->operation->op_id, generation,
				   next.args, next.traceparent, &frozen);
	next.base_url = m->action->spec->base_url;
	next.generation = generation;
	next.key = frozen.key;
	next.method = frozen.method;
	next.url = frozen.url;
	next.nheaders = frozen.nheaders;
	next.headers = frozen.headers;
	next.body = frozen.body;
	next.body_len = frozen.body_len;
	return next;
}

Datum
op_reissue(PG_FUNCTION_ARGS)
{
	char         *note = note_argument(fcinfo, 1, &to_reissue);
	Matter        m = begin_matter(fcinfo);
	OplDecision   decision;
	LedgerRequest next;

	check(opl_reissue(&m.operation->op, &m.promises, m.action->spec->lookup_first,
					  not_before(&m), m.clock, &decision),
		  &m, &to_reissue);
	check_reissue(&m);
	next = render_again(&m, decision.after.generation);
	operation_reissue(&m.ledger, m.operation, &decision, &next);
	store(&m, &decision, NULL, NULL);
	m.operation->external_id = NULL;
	event_insert(&m.ledger, m.operation->op_id, actor(),
				 psprintf("reissue generation %d", next.generation), note);
	return receipt(fcinfo, &m, NULL);
}

/* ---------------------------------------------------------------- approval */

static char *
digest_of(const LedgerRequest *r)
{
	Frozen frozen = {.key = r->key,
					 .method = r->method,
					 .url = r->url,
					 .nheaders = r->nheaders,
					 .headers = r->headers,
					 .body = r->body,
					 .body_len = r->body_len};

	return profile_digest(&frozen);
}

/* The bytes that go out are those that were recorded, and those that the person
 * looked at. */
static void
check_digest(const Matter *m, const char *looked_at)
{
	const char *recorded = event_last_note(&m->ledger, m->operation->op_id, "hold");
	const char *present;

	if (m->request == NULL)
		refuse_purged(m, &to_approve);
	present = digest_of(m->request);
	if (recorded == NULL || strcmp(recorded, present) != 0)
		ereport(ERROR,
				(errcode(OPL_ERR_STATE),
				 errmsg("operation \"%s\" cannot be approved: its request is not the one "
						"that was recorded",
						m->operation->op_id),
				 errdetail("The digest is %s, recorded was %s.", present,
						   recorded ? recorded : "none"),
				 errhint("Somebody changed op_request or op_event; op_reject() it and "
						 "find out who.")));
	if (looked_at != NULL && strcmp(looked_at, present) != 0)
		ereport(ERROR,
				(errcode(OPL_ERR_STATE),
				 errmsg("operation \"%s\" cannot be approved: its digest is another",
						m->operation->op_id),
				 errdetail("The digest is %s.", present),
				 errhint("Look at the request in op_review again; approve what you "
						 "see.")));
}

Datum
op_approve(PG_FUNCTION_ARGS)
{
	Matter      m = begin_matter(fcinfo);
	OplDecision decision;

	check(opl_approve(&m.operation->op, m.action->spec->lookup_first, not_before(&m),
					  m.clock.now, &decision),
		  &m, &to_approve);
	check_digest(&m, text_argument(fcinfo, 2));
	store(&m, &decision, NULL, reason_of(&decision, m.operation));
	event_insert(&m.ledger, m.operation->op_id, actor(), "approve",
				 text_argument(fcinfo, 1));
	return receipt(fcinfo, &m, NULL);
}

Datum
op_reject(PG_FUNCTION_ARGS)
{
	Matter      m = begin_matter(fcinfo);
	OplDecision decision;

	check(opl_reject(&m.operation->op, &decision), &m, &to_reject);
	store(&m, &decision, NULL, reason_of(&decision, m.operation));
	event_insert(&m.ledger, m.operation->op_id, actor(), "reject",
				 text_argument(fcinfo, 1));
	return receipt(fcinfo, &m, NULL);
}

Datum
op_digest(PG_FUNCTION_ARGS)
{
	char            *op_id = op_id_argument(fcinfo);
	Ledger           ledger = ledger_open(get_func_namespace(fcinfo->flinfo->fn_oid));
	LedgerOperation *operation;
	LedgerRequest   *request;

	ledger.snapshot_of_caller = true;
	operation = operation_read(&ledger, op_id);
	if (operation == NULL)
		no_such_operation(op_id);
	request = request_read(
		&ledger, op_id, PG_ARGISNULL(1) ? operation->op.generation : PG_GETARG_INT32(1));
	if (request == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(digest_of(request)));
}
