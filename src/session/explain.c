/*
 * explain.c - what the ledger would do next, when and why, in words.
 *
 * Nothing is decided here: decide.c is asked what it would say of the stored row
 * at the moment of the agenda, and of each answer that may come. No side effect.
 */
#include "postgres.h"

#include "base/compat.h"
#include "access/xlog.h"
#include "store/actions.h"
#include "store/agenda.h"
#include "store/attempt.h"
#include "store/config.h"
#include "store/finding.h"
#include "store/home.h"
#include "store/lease.h"
#include "fmgr.h"
#include "spec/freeze.h"
#include "funcapi.h"
#include "store/operation.h"
#include "miscadmin.h"
#include "session/receipt.h"
#include "spec/redact.h"
#include "base/tree.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"
#include "base/wake.h"

PG_FUNCTION_INFO_V1(op_explain);
PG_FUNCTION_INFO_V1(_op_review_facts);

/* All that the words are about. */
typedef struct Facts
{
	LedgerOperation *operation;
	LedgerRequest   *request; /* NULL: purged */
	Action          *action;  /* NULL: gone, where that is allowed */
	OplPromises      promises;
	OplStep          step; /* of the agenda */
	TimestampTz      due_at;
	OplClock         clock;
	bool             paused;
	bool             away;     /* this copy sends nothing */
	const char      *answered; /* what a 2xx to a send was; NULL: none came */
	int              nobjects;
	LedgerObject    *objects; /* of ours at the provider */
} Facts;

static Facts
gather(FunctionCallInfo fcinfo, Action *(*find)(const Ledger *ledger, const char *name))
{
	char           *op_id = op_id_argument(fcinfo);
	Oid             schema;
	LedgerProvider *provider;
	Ledger          ledger = ledger_open(get_func_namespace(fcinfo->flinfo->fn_oid));
	Facts           f = {0};

	ledger.snapshot_of_caller = true;
	f.operation = operation_read(&ledger, op_id);
	if (f.operation == NULL)
		no_such_operation(op_id);
	f.action = find(&ledger, f.operation->action);
	if (f.action != NULL)
		f.promises = finding_promises(f.action->spec, f.operation, NULL);
	f.request = request_read(&ledger, op_id, f.operation->op.generation);
	if (f.request != NULL)
		f.operation->op.not_after = f.request->not_after;
	f.clock = finding_clock(NULL);
	f.step = agenda_step(&ledger, op_id, &f.due_at);
	f.answered = attempt_answered(&ledger, op_id, f.operation->op.generation);
	f.objects = attempt_objects(&ledger, op_id, &f.nobjects);
	provider = config_provider(&ledger, f.operation->provider);
	f.paused = provider != NULL && provider->paused;
	f.away =
		!RecoveryInProgress() && home_fault(&ledger, home_extension(&schema)) != HOME_OK;
	return f;
}

/* ------------------------------------------------------------------- words */

static const char *
moment(OplMoment at)
{
	return pstrdup(timestamptz_to_str(at));
}

static const char *
with_reason(const char *words, const char *reason)
{
	return reason ? psprintf("%s (%s)", words, reason) : words;
}

static const char *
review_words(const OplDecision *d)
{
	return d->step == OPL_STEP_LOOKUP
			   ? psprintf(
					 "a person must find out; the provider is still asked, next at %s",
					 moment(d->due_at))
			   : "a person must find out";
}

/* What a decision means for the one who waits. */
static const char *
decision_words(const OplDecision *d)
{
	const char *state = opl_state_name(d->after.state);

	if (!d->moved)
		return "it is recorded, and nothing changes";
	if (opl_state_ended(d->after.state))
		return with_reason(state, d->reason);
	if (d->after.state == OPL_REVIEW)
		return with_reason(review_words(d), d->reason);
	if (d->step == OPL_STEP_SEND && d->after.tainted)
		return psprintf("%s; the same bytes go out again under the same key at %s", state,
						moment(d->due_at));
	if (d->step == OPL_STEP_SEND)
		return psprintf("%s; it is sent at %s", state, moment(d->due_at));
	return psprintf("%s; the provider is asked at %s", state, moment(d->due_at));
}

static const char *
why_not_now(const Facts *f)
{
	if (f->away)
		return "; but this is a copy of the ledger: not before op_adopt()";
	if (f->paused)
		return "; but the provider is paused: not before op_provider_resume()";
	return "";
}

static const char *
send_words(const Facts *f)
{
	const OplOperation *op = &f->operation->op;

	return psprintf("%s%s, try %d of %d%s",
					f->action->spec->executor == EXECUTOR_CLIENT
						? "op_claim() gives it to a client from then on: "
						: "",
					op->tainted ? "the same bytes are sent again under the same key"
								: "the request is sent",
					op->tries + 1, f->promises.attempts, why_not_now(f));
}

/* ----------------------------------------------------------- the next step */

typedef struct Next
{
	OplClaim     claim;
	OplOperation after; /* as it is while the exchange is under way */
	OplDecision  decision;
	TimestampTz  at;
} Next;

/* As the clock will be when it goes on steadily. */
static OplClock
at_that_time(const Facts *f, OplMoment at)
{
	OplClock clock = f->clock;

	clock.now = at;
	return clock;
}

static OplClaim
claim_at(const Facts *f, OplMoment at, OplDecision *decision)
{
	OplClock clock = at_that_time(f, at);

	if (f->promises.client && f->step == OPL_STEP_SEND)
		return opl_claim_ticket(&f->operation->op, &f->promises, LEASE_DEFAULT, clock,
								decision);
	return opl_claim(&f->operation->op, &f->promises, f->step, clock, decision);
}

/* What the worker, or a client, would make of the agenda's row when it comes due. */
static Next
look_ahead(const Facts *f)
{
	Next n = {.at = Max(f->clock.now, f->due_at)};

	n.claim = claim_at(f, n.at, &n.decision);
	if (n.claim == OPL_CLAIM_NOTHING && f->step == OPL_STEP_SEND &&
		n.decision.step == OPL_STEP_SEND)
	{
		n.at = n.decision.due_at; /* the same, but at a distance from the last */
		n.claim = claim_at(f, n.at, &n.decision);
	}
	n.after = n.decision.after;
	if (f->operation->op.state == OPL_SUBMITTED)
		n.after = f->operation->op; /* the exchange is under way already */
	return n;
}

static const char *
idle_words(const Facts *f)
{
	const OplOperation *op = &f->operation->op;

	if (op->state == OPL_HELD)
		return "nothing, until op_approve() or op_reject()";
	if (op->state == OPL_FAILED && f->request != NULL)
		return "nothing; a person may order another try with op_reissue()";
	if (opl_state_ended(op->state))
		return "nothing: it has ended";
	if (op->contradiction)
		return "nothing: what is known contradicts itself; a person must op_resolve() it";
	if (op->state == OPL_REVIEW)
		return "nothing by machine: a person must op_resolve() it";
	return "nothing: it is not on the agenda; op_adopt() builds the agenda anew";
}

static const char *
next_words(const Facts *f, const Next *n)
{
	if (f->step == OPL_STEP_NONE)
		return idle_words(f);
	if (f->operation->op.state == OPL_SUBMITTED)
		return "the answer is awaited until then";
	if (n->claim == OPL_CLAIM_SEND)
		return send_words(f);
	if (n->claim == OPL_CLAIM_LOOKUP)
		return "the provider is asked";
	return psprintf("it is not sent: %s", decision_words(&n->decision));
}

/* ------------------------------------------------------------- what answers */

typedef struct Answer
{
	OplStep     to;
	OplVerdict  verdict;
	const char *topic;
} Answer;

static const Answer answers[] = {
	{OPL_STEP_SEND, OPL_V_CONFIRMED, "if it succeeds"},
	{OPL_STEP_SEND, OPL_V_REJECTED, "if it is rejected"},
	{OPL_STEP_SEND, OPL_V_NOT_SENT, "if it cannot leave"},
	{OPL_STEP_SEND, OPL_V_UNKNOWN, "if no answer comes"},
	{OPL_STEP_LOOKUP, OPL_V_FOUND, "if it shows our object"},
	{OPL_STEP_LOOKUP, OPL_V_FOUND_FAILED, "if the object has failed"},
	{OPL_STEP_LOOKUP, OPL_V_ABSENT, "if it shows none of ours"},
	{OPL_STEP_LOOKUP, OPL_V_INCONCLUSIVE, "if it cannot tell"},
};

static OplDecision
suppose(const Facts *f, const Next *n, const Answer *answer)
{
	OplFinding finding = {.verdict = answer->verdict,
						  .kind = answer->to == OPL_STEP_SEND ? OPL_KIND_SEND
															  : OPL_KIND_LOOKUP,
						  .started_at = n->at,
						  .retry_at = OPL_NEVER,
						  .same_generation = true};

	return opl_decide(&n->after, &f->promises, &finding, at_that_time(f, n->at));
}

/* ------------------------------------------------------------------- facts */

static const char *
key_words(const Facts *f)
{
	if (f->promises.ttl == 0)
		return "the provider is not known to remember a key: what may have taken effect "
			   "is not sent again, but after proof of absence";
	if (f->operation->op.first_sent_at == OPL_NEVER)
		return "nothing was sent with it yet";
	if (f->promises.guards && !f->operation->op.adopted)
		return "until then the provider remembers the key, and the key admits no second "
			   "effect; a repeat must surely arrive before";
	return "until then the provider remembers the key; it is sent again after proof of "
		   "absence only";
}

static const char *const seal_words[OPL_SEAL_COUNT] = {
	[OPL_SEAL_REFUSED] = "refused: not sent any more; once nothing can still arise and "
						 "the provider shows nothing, it has failed",
	[OPL_SEAL_EVIDENCE] =
		"evidence: not sent any more, an answer may stem from an effect",
	[OPL_SEAL_SEEN] = "seen: not sent any more, the provider showed us the object",
};

static const char place_changed[] =
	"it was sent to another account, or the provider was asked in another way, than its "
	"row says now: it is looked up, but only an object of ours is proof; it is not sent "
	"again, and does not fail, until secret and account (or lookup, object, proxy, tls) "
	"are as they were";
static const char place_lost[] =
	"when it was adopted, it had been sent to another account than the row said: only an "
	"object of ours is proof; a person must find out the rest";

static char *
object_words(const LedgerObject *object)
{
	return psprintf("%s: %s, %s%s", object->id, object->state,
					object->seen ? "shown by " : "on record",
					object->seen ? object->seen : "");
}

/* ----------------------------------------------------------------- op_explain */

static void
say(ReturnSetInfo *out, const char *topic, OplMoment at, const char *words)
{
	Datum values[] = {CStringGetTextDatum(topic), TimestampTzGetDatum(at),
					  CStringGetTextDatum(words)};
	bool  nulls[] = {false, at == OPL_NEVER, false};

	tuplestore_putvalues(out->setResult, out->setDesc, values, nulls);
}

static void
say_answers(ReturnSetInfo *out, const Facts *f, const Next *n)
{
	OplStep to = n->claim == OPL_CLAIM_LOOKUP ? OPL_STEP_LOOKUP : OPL_STEP_SEND;

	if (f->step == OPL_STEP_NONE ||
		(n->claim == OPL_CLAIM_NOTHING && f->operation->op.state != OPL_SUBMITTED))
		return;
	for (int i = 0; i < lengthof(answers); i++)
	{
		OplDecision d;

		if (answers[i].to != to)
			continue;
		d = suppose(f, n, &answers[i]);
		say(out, answers[i].topic, OPL_NEVER, decision_words(&d));
	}
}

static void
say_facts(ReturnSetInfo *out, const Facts *f)
{
	const OplOperation *op = &f->operation->op;

	say(out, "key", opl_key_forgotten_at(op, &f->promises, f->clock), key_words(f));
	say(out, "tries", opl_patience_ends_at(op, &f->promises, f->clock),
		psprintf("%d of %d may have taken effect; none after then", op->tries,
				 f->promises.attempts));
	if (op->not_after != OPL_NEVER)
		say(out, "not_after", op->not_after, "nothing is sent from then on");
	if (op->last_sent_at != OPL_NEVER)
		say(out, "quiet", opl_quiet_at(op, &f->promises, f->clock),
			"from then on nothing that was sent can still arise");
	if (op->sealed != OPL_SEAL_NONE)
		say(out, "seal", OPL_NEVER, seal_words[op->sealed]);
	if (opl_elsewhere(op, &f->promises))
		say(out, "place", OPL_NEVER,
			op->place == OPL_ANYWHERE ? place_lost : place_changed);
	if (op->adopted)
		say(out, "adopted", OPL_NEVER, "another copy may have sent it: no key guards it");
	if (f->promises.recipe && op->last_sent_at != OPL_NEVER && op->state != OPL_REVIEW)
		say(out, "give_up", opl_gives_up_at(op, &f->promises, f->clock),
			"if nothing is known by then, a person is asked");
}

/* One alone is the external id; several are what a person must know of. */
static void
say_objects(ReturnSetInfo *out, const Facts *f)
{
	if (f->nobjects < 2 && !f->operation->op.contradiction)
		return;
	for (int i = 0; i < f->nobjects; i++)
		say(out, "object", OPL_NEVER, object_words(&f->objects[i]));
}

static void
say_worker(ReturnSetInfo *out)
{
	if (wake_available() && wake_report(MyDatabaseId).state == SLOT_RUNNING)
		return;
	say(out, "worker", OPL_NEVER,
		"no worker runs for this database, so nothing is done; op_health() says why");
}

Datum
op_explain(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *out = (ReturnSetInfo *) fcinfo->resultinfo;
	Facts          f = gather(fcinfo, action_get);
	OplState       state = f.operation->op.state;
	Next           next = look_ahead(&f);

	InitMaterializedSRF(fcinfo, 0);
	say(out, "state", OPL_NEVER,
		psprintf("%s: %s", opl_state_name(state),
				 with_reason(receipt_message(f.operation), f.operation->reason)));
	say(out, "next", f.step == OPL_STEP_NONE ? OPL_NEVER : next.at,
		next_words(&f, &next));
	say_answers(out, &f, &next);
	say_objects(out, &f);
	if (!opl_state_ended(state))
	{
		say_facts(out, &f);
		say_worker(out);
	}
	else if (f.request == NULL)
		say(out, "purged", OPL_NEVER, "what was sent and what came back was purged");
	return (Datum) 0;
}

/* ------------------------------------------------------------------ op_review */

/* What the machine last stumbled over, and where a person looks. */
static const struct
{
	const char *reason;
	const char *words;
} stumbles[] = {
	{"absent",
	 "The provider shows nothing of ours, and it cannot be sent again safely. "},
	{"gave_up", "The provider did not tell in all that time. "},
	{"no_lookup", "Nothing can be looked up by machine. "},
	{"elsewhere", "It was sent to another account, or asked after in another way, than "
				  "the provider's row says now. "},
	{"poisoned", "The worker fails on this operation; see op_event for the error. "},
	{"adopted", "Another copy of this ledger may have sent it. "},
	{"idempotency_error", "The provider knows the key with another request. "},
};

static const char *
stumble_words(const Facts *f)
{
	const char *reason = f->operation->reason;

	for (int i = 0; reason && i < lengthof(stumbles); i++)
	{
		if (strcmp(reason, stumbles[i].reason) == 0)
			return stumbles[i].words;
	}
	return "";
}

static char *
marker_of(const Facts *f)
{
	return canon_marker(f->request ? f->request->name_space : f->action->spec->name_space,
						f->operation->op_id, f->operation->op.generation);
}

static const char *
contradiction_words(const Facts *f)
{
	const char    *id = quote_literal_cstr(f->operation->op_id);
	StringInfoData objects;

	initStringInfo(&objects);
	for (int i = 0; i < f->nobjects; i++)
		appendStringInfo(&objects, "%s%s", i > 0 ? "; " : "",
						 object_words(&f->objects[i]));
	return psprintf(
		"Two things that cannot both be true are on record: %s. Look for \"%s\" at the "
		"provider. If there are two effects, undo one there. Then say what is left: "
		"SELECT op_resolve(%s, 'confirmed', '<id of the one that is left>', '<what you "
		"saw>'), or SELECT op_resolve(%s, 'failed', note => '<what you saw>') if none "
		"is.",
		objects.len > 0 ? objects.data : "the attempts show which", marker_of(f), id, id);
}

/* Our marker is not where it should be: on what a send was answered, or on anything
 * that a list shows. */
static bool
is_unmarked(const Facts *f)
{
	const char *reason = f->operation->reason;

	if (f->answered == NULL)
		return false;
	return strcmp(f->answered, "no_marker") == 0 ||
		   strcmp(f->answered, "foreign_marker") == 0 ||
		   (reason != NULL && strcmp(reason, "unmarked") == 0);
}

/* What a lookup does not show proves nothing then: nobody is told to do it anew. */
static const char *
unmarked_words(const Facts *f)
{
	const char *id = quote_literal_cstr(f->operation->op_id);
	JsonbValue  object;
	JsonbValue  path = {.type = jbvNull};

	if (json_member(&f->action->spec->json->root, "object", &object))
		(void) json_member(object.val.binary.data, "marker", &path);
	return psprintf(
		"A send was answered with success, but \"%s\" is not where object.marker looks "
		"(%.*s): if that field is wrong, no lookup can find what is there. Look at what "
		"came, SELECT op_evidence(%s), and at the provider. If it is there: SELECT "
		"op_resolve(%s, 'confirmed', '<its id>', '<what you saw>'). Or repair "
		"object.marker in the spec of action %s, then SELECT "
		"op_recheck(%s).",
		marker_of(f), path.type == jbvString ? path.val.string.len : 0,
		path.type == jbvString ? path.val.string.val : "", id, id,
		quote_literal_cstr(f->operation->action), id);
}

static const char *
absent_words(const Facts *f)
{
	OplMoment quiet_at = opl_quiet_at(&f->operation->op, &f->promises, f->clock);

	if (f->clock.now > quiet_at)
		return "if it is not there, op_resolve('failed'), and op_reissue() if it is "
			   "still "
			   "wanted";
	return psprintf("if it is not there, wait until %s, look again, then "
					"op_resolve('failed')",
					moment(quiet_at));
}

static const char *
suggestion(const Facts *f)
{
	const OplOperation *op = &f->operation->op;

	if (op->state == OPL_HELD)
		return "Look at the request. op_approve() with this digest lets exactly these "
			   "bytes go; op_reject() ends it.";
	if (op->contradiction)
		return contradiction_words(f);
	if (is_unmarked(f))
		return unmarked_words(f);
	return psprintf("%sLook for \"%s\" at the provider. If it is there, "
					"op_resolve('confirmed') with its id; %s.",
					stumble_words(f), marker_of(f), absent_words(f));
}

static char *
console_of(const Facts *f)
{
	LedgerRequest purged = {.name_space = f->action->spec->name_space};
	Subject subject = finding_subject(f->operation, f->request ? f->request : &purged);

	return profile_console(f->action->spec, &subject);
}

/* One whose action is gone must not hide the others. */
static void
review_facts(const Facts *f, Datum *values, bool *nulls)
{
	OplMoment forgotten = opl_key_forgotten_at(&f->operation->op, &f->promises, f->clock);
	OplMoment quiet_at = opl_quiet_at(&f->operation->op, &f->promises, f->clock);
	const char *console = console_of(f);

	values[0] = TimestampTzGetDatum(forgotten);
	nulls[0] = forgotten == OPL_NEVER;
	values[1] = TimestampTzGetDatum(quiet_at);
	nulls[1] = quiet_at == OPL_NEVER;
	values[2] = CStringGetTextDatum(suggestion(f));
	nulls[3] = console == NULL;
	if (console != NULL)
		values[3] = CStringGetTextDatum(console);
}

Datum
_op_review_facts(PG_FUNCTION_ARGS)
{
	Facts     f = gather(fcinfo, action_find);
	TupleDesc descriptor;
	Datum     values[4] = {0};
	bool      nulls[4] = {true, true, false, true};

	if (get_call_result_type(fcinfo, NULL, &descriptor) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "a row was expected as result type");
	if (f.action != NULL)
		review_facts(&f, values, nulls);
	else
		values[2] = CStringGetTextDatum(
			psprintf("Action \"%s\" is gone. Add it again with op_action_add(), or "
					 "nothing can be done with this operation.",
					 f.operation->action));
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), values, nulls));
}
