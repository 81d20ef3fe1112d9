/*
 * decide.c - operation, promises, finding, now -> decision.
 *
 * Invariants, each held in every order of events by test/model:
 *
 *  1. A tainted operation never goes back to `pending`, and to `failed` only by
 *     proof about every request that left.
 *  2. A resend carries the same key and arrives while the provider remembers it,
 *     or follows proof of absence that was begun when nothing could still arise.
 *  3. Evidence about one object moves forward only: pending, done, failed.
 *  4. What has not ended has a next step, or waits for a person in `review`.
 *  5. Of what was sent to another place than the present one only a living object
 *     is proof: it is not sent again, and it does not fail, until the place is back.
 *
 * Evidence first passes the door, which knows what an earlier exchange may still say,
 * then the table of verdicts: one function on_...() per row, built from six questions:
 * window_open, tries_left, may_send, again, look, stay. sql/decide.sql lists both.
 */
#include "rules/decide.h"

#include <stddef.h>
#include <string.h>

/* Lookups back off like sends, but up to this. */
#define LOOKUP_MAX (10 * OPL_MINUTE)

/* An attempt that was not settled this long after its last timer is lost. */
#define DEADLINE_SLACK (5 * OPL_SECOND)

/* Whose answer is in hand and cannot be settled yet is looked at again after this. */
#define PUT_OFF (10 * OPL_SECOND)

/* After adoption, generations count on from here, so that they never meet one
 * of the lost time line. */
#define ADOPTED_GENERATIONS 1000

/* One question and all that it is asked about. */
typedef struct Case
{
	const OplOperation *op;
	const OplPromises  *promises;
	const OplFinding   *finding; /* NULL at a claim */
	OplMoment           now;
	OplClock            clock;
} Case;

/* ------------------------------------------------------------ the moments */

static OplMoment
later_of(OplMoment a, OplMoment b)
{
	return a > b ? a : b;
}

/* initial * base^(attempts - 1), at most `cap`; the dice takes part of it. */
static OplMoment
backoff(const Case *c, OplMoment cap)
{
	const OplPromises *p = c->promises;
	double             delay = (double) p->initial;
	double             dice = c->finding ? c->finding->dice : 0;

	for (int n = 1; n < c->op->attempts && n < 64; n++)
		delay *= p->base;
	if (delay > (double) cap)
		delay = (double) cap;
	return c->now + (OplMoment) (delay * (1 - p->jitter * dice));
}

static OplMoment
send_later(const Case *c)
{
	return backoff(c, c->promises->max);
}

static OplMoment
look_later(const Case *c)
{
	return backoff(c, LOOKUP_MAX);
}

/* When the provider asked us to come back, else after a back-off. */
static OplMoment
retry_after(const Case *c)
{
	if (c->finding->retry_at == OPL_NEVER)
		return send_later(c);
	return later_of(c->finding->retry_at, c->now);
}

/* From which moment of the present clock a duration that began at `moment` has surely
 * been running. What is not known to be earlier began when the clock was last known
 * to step: no duration ends too early then, and none lasts for the length of a step. */
static OplMoment
surely_since(OplMoment moment, OplClock clock)
{
	if (moment == OPL_NEVER)
		return OPL_NEVER;
	if (moment > clock.now && clock.steady_since != OPL_NEVER)
		return clock.steady_since; /* of a clock that was set back since */
	return later_of(moment, clock.steady_since);
}

/* The earliest moment of the present clock that `moment` may mean: for what must be
 * over before something else ends. */
static OplMoment
perhaps_at(OplMoment moment, OplClock clock)
{
	if (moment == OPL_NEVER || moment > clock.set_back_from)
		return moment;
	return moment - clock.set_back_by;
}

OplMoment
opl_quiet_at(const OplOperation *op, const OplPromises *promises, OplClock clock)
{
	if (op->last_sent_at == OPL_NEVER)
		return OPL_NEVER;
	return surely_since(op->last_sent_at, clock) + promises->margin + promises->flight +
		   promises->lag;
}

/* Can nothing that was sent before `started_at` still arise after it? */
static bool
quiet(const Case *c, OplMoment started_at)
{
	if (started_at > c->now)
		return false; /* it was begun before the clock was set back */
	return started_at > opl_quiet_at(c->op, c->promises, c->clock);
}

OplMoment
opl_gives_up_at(const OplOperation *op, const OplPromises *promises, OplClock clock)
{
	if (op->last_sent_at == OPL_NEVER)
		return OPL_NEVER;
	return surely_since(op->last_sent_at, clock) + promises->give_up;
}

static bool
past_give_up(const Case *c)
{
	return c->op->last_sent_at != OPL_NEVER &&
		   c->now >= opl_gives_up_at(c->op, c->promises, c->clock);
}

OplMoment
opl_patience_ends_at(const OplOperation *op, const OplPromises *promises, OplClock clock)
{
	if (op->trying_since == OPL_NEVER)
		return OPL_NEVER;
	return surely_since(op->trying_since, clock) + promises->patience;
}

OplMoment
opl_key_forgotten_at(const OplOperation *op, const OplPromises *promises, OplClock clock)
{
	if (op->first_sent_at == OPL_NEVER || promises->ttl == 0)
		return OPL_NEVER;
	return perhaps_at(op->first_sent_at, clock) + promises->ttl;
}

/* When an attempt that was claimed at `now` is over, whatever happened. */
static OplMoment
deadline(const OplPromises *promises, OplMoment now)
{
	return now + promises->margin + promises->timeout + DEADLINE_SLACK;
}

/* -------------------------------------------------------------- the place */

bool
opl_elsewhere(const OplOperation *op, const OplPromises *promises)
{
	return op->place != OPL_NOWHERE && op->place != promises->place;
}

static bool
elsewhere(const Case *c)
{
	return opl_elsewhere(c->op, c->promises);
}

/* ------------------------------------------------- the six questions, first */

/* Would a request that leaves at `when` surely arrive while the provider still
 * remembers the key? The window opened with the first claim. */
static bool
window_open(const Case *c, OplMoment when)
{
	const OplPromises *p = c->promises;
	OplMoment          reach = later_of(p->flight, p->timeout);
	OplMoment          first = perhaps_at(c->op->first_sent_at, c->clock);

	if (first == OPL_NEVER)
		return p->ttl > 0;
	if (when < first || when < perhaps_at(c->op->last_sent_at, c->clock))
		return false; /* the clock was set back unseen: nothing is proven */
	return when + p->margin + reach < first + p->ttl;
}

static bool
tries_left(const Case *c, OplMoment when)
{
	const OplOperation *op = c->op;

	if (op->tries >= c->promises->attempts)
		return false;
	if (op->trying_since != OPL_NEVER &&
		when >= opl_patience_ends_at(op, c->promises, c->clock))
		return false;
	return op->not_after == OPL_NEVER || when < op->not_after;
}

/* But for the place. */
static bool
could_send(const Case *c, OplMoment when)
{
	return c->op->sealed == OPL_SEAL_NONE && window_open(c, when) && tries_left(c, when);
}

/* Another account does not know the key. */
static bool
may_send(const Case *c, OplMoment when)
{
	return !elsewhere(c) && could_send(c, when);
}

/* The key admits no second effect; another time line may have used another. */
static bool
key_guards(const Case *c)
{
	return c->promises->guards && !c->op->adopted;
}

/* An answer from behind the key is the fate of all requests with that key. */
static bool
key_keeps_failures(const Case *c)
{
	return !c->op->adopted && (c->promises->stores == OPL_STORES_ALL ||
							   c->promises->stores == OPL_STORES_STATE);
}

/* --------------------------------------------------------- the decisions */

static OplDecision
recorded(const OplOperation *op)
{
	OplDecision d = {.after = *op, .due_at = OPL_NEVER};

	return d;
}

/* Something may have been sent. If it was not from here, nobody knows when: now
 * is the latest, and both quiet and give_up need a moment to count from. */
static void
taint(OplOperation *op, OplMoment now)
{
	op->tainted = true;
	if (op->last_sent_at == OPL_NEVER)
		op->last_sent_at = now;
}

static OplDecision
become(const Case *c, OplState state, OplStep step, OplMoment due_at)
{
	OplDecision d = recorded(c->op);

	d.moved = true;
	d.after.state = state;
	if (opl_state_taints(state))
		taint(&d.after, c->now);
	d.step = step;
	d.due_at = step == OPL_STEP_NONE ? OPL_NEVER : due_at;
	return d;
}

static OplDecision
end(const Case *c, OplState state, const char *reason)
{
	OplDecision d = become(c, state, OPL_STEP_NONE, OPL_NEVER);

	d.reason = reason;
	return d;
}

/* A person must decide; the machine keeps watching where it can. */
static OplDecision
review(const Case *c, const char *reason)
{
	OplStep     step = c->promises->recipe ? OPL_STEP_LOOKUP : OPL_STEP_NONE;
	OplDecision d = become(c, OPL_REVIEW, step, look_later(c));

	d.reason = reason;
	return d;
}

static OplDecision
resend(const Case *c, OplMoment when)
{
	return become(c, OPL_UNKNOWN, OPL_STEP_SEND, when);
}

/* look(when): the next thing is to ask the provider. Where nobody can be asked, what
 * could be sent again waits for its place as long as it could; the claim asks. */
static OplDecision
look(const Case *c, OplMoment when)
{
	if (c->op->state == OPL_REVIEW)
		return review(c, NULL);
	if (c->promises->recipe)
		return become(c, OPL_UNKNOWN, OPL_STEP_LOOKUP, when);
	if (!elsewhere(c))
		return review(c, "no_lookup");
	if (key_guards(c) && could_send(c, c->now))
		return resend(c, c->now + c->promises->max);
	return review(c, "elsewhere");
}

/* again(when): the same bytes under the same key, if that cannot do harm. A
 * back-off that ends too late to send is no reason to wait before asking. */
static OplDecision
again(const Case *c, OplMoment when)
{
	if (c->op->state == OPL_REVIEW || !key_guards(c) || !may_send(c, c->now))
		return look(c, when);
	if (!may_send(c, when))
		return look(c, c->now);
	return resend(c, when);
}

/* stay(when): nothing was learned; ask again. */
static OplDecision
stay(const Case *c, OplMoment when)
{
	OplState state = c->op->state;

	if (state == OPL_REVIEW)
		return review(c, NULL);
	if (state == OPL_SUBMITTED || (state == OPL_UNKNOWN && !c->promises->recipe))
		return look(c, when);
	if (state == OPL_ACCEPTED && !c->promises->recipe)
		when = later_of(c->now, opl_gives_up_at(c->op, c->promises, c->clock));
	return become(c, state, OPL_STEP_LOOKUP, when);
}

static OplDecision
stay_or_give_up(const Case *c, OplMoment when)
{
	if (past_give_up(c))
		return review(c, elsewhere(c) ? "elsewhere" : "gave_up");
	return stay(c, when);
}

/* The first seal stays; only `seen` overrides. */
static void
seal(OplOperation *op, OplSeal with)
{
	if (op->sealed == OPL_SEAL_NONE || with == OPL_SEAL_SEEN)
		op->sealed = with;
}

/* The request of this answer had no effect: its try was none. */
static void
give_try_back(OplOperation *op)
{
	if (op->tries > 0)
		op->tries--;
}

/* ------------------------------------------------- the table, row by row */

static OplDecision
on_success(const Case *c)
{
	return end(c, OPL_CONFIRMED, NULL);
}

static OplDecision
on_pending_object(const Case *c)
{
	OplOperation op = *c->op;
	Case         seen = *c;

	seal(&op, OPL_SEAL_SEEN);
	seen.op = &op;
	if (past_give_up(c))
		return review(&seen, "gave_up");
	op.state = OPL_ACCEPTED;
	return stay(&seen, look_later(c));
}

static OplDecision
on_failed_object(const Case *c)
{
	OplOperation op = *c->op;
	Case         sealed = *c;
	bool         only_one = op.tries <= 1 && !op.adopted;
	bool         all_share_it = key_guards(c) && key_keeps_failures(c);
	bool         nothing_left =
		c->finding->kind == OPL_KIND_LOOKUP && quiet(c, c->finding->started_at);

	if (!elsewhere(c) && (only_one || all_share_it || nothing_left))
		return end(c, OPL_FAILED, NULL);
	seal(&op, OPL_SEAL_EVIDENCE);
	sealed.op = &op;
	return stay(&sealed, look_later(c));
}

/* Proven: this request did nothing. Then, when to try again. */
static OplDecision
on_no_effect(const Case *c, OplMoment when)
{
	OplOperation op = *c->op;
	Case         tried = *c;

	give_try_back(&op);
	tried.op = &op;
	if (op.tainted)
		return again(&tried, when);
	if (!tries_left(&tried, c->now))
		return end(&tried, OPL_FAILED, NULL);
	return become(&tried, OPL_PENDING, OPL_STEP_SEND, when);
}

static OplDecision
on_rejected(const Case *c)
{
	OplOperation op = *c->op;
	Case         sealed = *c;

	if (!op.tainted)
		return end(c, OPL_FAILED, NULL);
	if (c->finding->keyed && key_keeps_failures(c))
		return end(c, OPL_FAILED, NULL);
	seal(&op, OPL_SEAL_REFUSED);
	sealed.op = &op;
	return look(&sealed, c->now);
}

static OplDecision
on_blocked(const Case *c)
{
	OplOperation op = *c->op;
	Case         tried = *c;
	OplDecision  d;

	give_try_back(&op);
	tried.op = &op;
	if (!op.tainted)
		d = become(&tried, OPL_PENDING, OPL_STEP_SEND, send_later(c));
	else if (c->promises->recipe)
		d = look(&tried, look_later(c));
	else
		d = again(&tried, send_later(c));
	d.pause = true;
	return d;
}

/* This request waits behind an earlier one with the same key: it did nothing,
 * and the earlier one will have done something soon. */
static OplDecision
on_in_progress(const Case *c)
{
	OplOperation op = *c->op;
	Case         tried = *c;

	give_try_back(&op);
	tried.op = &op;
	return again(&tried, retry_after(c));
}

static OplDecision
on_effect_hinted(const Case *c, OplMoment when)
{
	OplOperation op = *c->op;
	Case         sealed = *c;

	seal(&op, OPL_SEAL_EVIDENCE);
	sealed.op = &op;
	return look(&sealed, when);
}

/* A 2xx without a marker may be ours all the same, with a marker that is not where we
 * look. So it is evidence of an effect. */
static OplDecision
on_no_answer(const Case *c)
{
	if (c->finding->unmarked)
		return on_effect_hinted(c, c->now);
	if (c->promises->recipe)
		return look(c, c->now);
	return again(c, send_later(c));
}

/* Not quiet: what is still under way may show up. Ask later, and once more as
 * soon as the answer proves something. */
static OplDecision
on_absent_too_early(const Case *c)
{
	OplMoment quiet_at = opl_quiet_at(c->op, c->promises, c->clock) + 1;
	OplMoment when = look_later(c);

	if (c->op->state != OPL_REVIEW && key_guards(c) && may_send(c, c->now))
		return resend(c, c->now);
	if (c->now < quiet_at && quiet_at < when)
		when = quiet_at;
	return stay(c, when);
}

static OplDecision
on_absent(const Case *c)
{
	bool proved = !c->finding->unmarked;

	if (elsewhere(c))
		return stay_or_give_up(c, look_later(c));
	if (c->op->state == OPL_PENDING)
		return become(c, OPL_PENDING, OPL_STEP_SEND, c->now);
	if (c->op->sealed == OPL_SEAL_SEEN)
		return stay_or_give_up(c, look_later(c));
	if (!quiet(c, c->finding->started_at))
		return on_absent_too_early(c);
	if (proved && c->op->sealed == OPL_SEAL_REFUSED)
		return end(c, OPL_FAILED, "refused");
	if (proved && c->op->state != OPL_REVIEW && may_send(c, c->now))
		return resend(c, c->now);
	/* What sealed it says more than that nothing was found. */
	if (c->op->sealed != OPL_SEAL_NONE)
		return review(c, NULL);
	return review(c, proved ? "absent" : "unmarked");
}

static OplDecision
on_inconclusive(const Case *c)
{
	if (c->op->state == OPL_PENDING)
		return stay(c, look_later(c));
	return stay_or_give_up(c, look_later(c));
}

static OplDecision
on_contradiction(const Case *c)
{
	OplDecision d = end(c, OPL_REVIEW, NULL);

	d.after.contradiction = true;
	return d;
}

/* Another account's word about the key. Of an operation with an only request it is
 * the word about that one, wherever it went. */
static bool
speaks_of_another(const Case *c)
{
	OplVerdict verdict = c->finding->verdict;

	return elsewhere(c) && c->op->tainted &&
		   (verdict == OPL_V_REJECTED || verdict == OPL_V_IN_PROGRESS ||
			verdict == OPL_V_ALREADY_DONE || verdict == OPL_V_MISMATCH ||
			verdict == OPL_V_STORED_ERROR);
}

static OplDecision
by_table(const Case *c)
{
	if (speaks_of_another(c))
		return on_no_answer(c);
	switch (c->finding->verdict)
	{
		case OPL_V_CONFIRMED:
		case OPL_V_FOUND:
			return on_success(c);
		case OPL_V_ACCEPTED:
		case OPL_V_FOUND_PENDING:
			return on_pending_object(c);
		case OPL_V_FOUND_FAILED:
			return on_failed_object(c);
		case OPL_V_NOT_SENT:
			return on_no_effect(c, send_later(c));
		case OPL_V_NOT_PROCESSED:
			return on_no_effect(c, retry_after(c));
		case OPL_V_REJECTED:
			return on_rejected(c);
		case OPL_V_BLOCKED:
			return on_blocked(c);
		case OPL_V_IN_PROGRESS:
			return on_in_progress(c);
		case OPL_V_ALREADY_DONE:
			return on_effect_hinted(c, c->now);
		case OPL_V_MISMATCH:
			return review(c, NULL);
		case OPL_V_STORED_ERROR:
			return on_effect_hinted(c, look_later(c));
		case OPL_V_ABSENT:
			return on_absent(c);
		case OPL_V_INCONCLUSIVE:
			return on_inconclusive(c);
		case OPL_V_CONTRADICTION:
			return on_contradiction(c);
		case OPL_V_UNKNOWN:
		case OPL_VERDICT_COUNT:
			break;
	}
	return on_no_answer(c);
}

/* ---------------------------------------------------------------- the door */

typedef enum Passage
{
	PASS,        /* ask the table */
	PASS_FAILED, /* ask the table as if the object had failed */
	NOTE,        /* record the evidence, nothing moves */
	CONTRADICT   /* two truths: a person must see it */
} Passage;

static bool
shows_object(OplVerdict verdict)
{
	return verdict == OPL_V_CONFIRMED || verdict == OPL_V_FOUND ||
		   verdict == OPL_V_ACCEPTED || verdict == OPL_V_FOUND_PENDING ||
		   verdict == OPL_V_FOUND_FAILED;
}

static bool
shows_pending(OplVerdict verdict)
{
	return verdict == OPL_V_ACCEPTED || verdict == OPL_V_FOUND_PENDING;
}

/* Webhooks and late answers meet an operation in any state. */
static Passage
unexpected(const Case *c, bool failed)
{
	switch (c->op->state)
	{
		case OPL_SUBMITTED:
		case OPL_UNKNOWN:
		case OPL_ACCEPTED:
		case OPL_REVIEW:
			return failed ? PASS_FAILED : PASS;
		case OPL_CONFIRMED:
			/* Another object than the recorded one did not get here. */
			if (failed)
				return c->finding->object == OPL_OBJECT_SAME ? CONTRADICT : NOTE;
			return NOTE;
		default:
			return failed ? NOTE : CONTRADICT;
	}
}

static Passage
door(const Case *c)
{
	const OplFinding *f = c->finding;
	bool              expected = f->kind == OPL_KIND_SEND || f->kind == OPL_KIND_LOOKUP;
	bool              failed = f->verdict == OPL_V_FOUND_FAILED;

	if (c->op->contradiction)
		return NOTE;
	if (!shows_object(f->verdict))
		return expected ? PASS : NOTE;
	if (f->object_failed && shows_pending(f->verdict))
		failed = true; /* forward only: what failed is not pending again */
	if (f->kind == OPL_KIND_LATE && failed && c->op->state != OPL_CONFIRMED)
		return NOTE; /* a newer attempt may work; but a reversal is news */
	if (!f->same_generation || f->object == OPL_OBJECT_OTHER)
		return failed ? NOTE : CONTRADICT;
	if (f->object_failed && !failed)
		return CONTRADICT;
	if (!expected)
		return unexpected(c, failed);
	return failed ? PASS_FAILED : PASS;
}

/* Invariants 1 and 4, asked of each decision that evidence or a claim led to. */
static void
check(const OplOperation *op, const OplPromises *promises, const OplDecision *d)
{
	OPL_ASSERT(opl_state_may_become(op->state, d->after.state));
	OPL_ASSERT(!op->tainted || d->after.tainted);
	OPL_ASSERT(!d->moved || !op->tainted || d->after.state != OPL_PENDING);
	OPL_ASSERT((d->step == OPL_STEP_NONE) == (d->due_at == OPL_NEVER));
	OPL_ASSERT(d->moved || d->step == OPL_STEP_NONE);
	OPL_ASSERT(!opl_state_ended(d->after.state) || d->step == OPL_STEP_NONE);
	OPL_ASSERT(!d->after.contradiction || d->step == OPL_STEP_NONE);
	OPL_ASSERT(op->state != OPL_REVIEW || d->step != OPL_STEP_SEND);
	OPL_ASSERT(promises->recipe || d->after.state == OPL_ACCEPTED ||
			   d->step != OPL_STEP_LOOKUP || d->after.state == OPL_SUBMITTED);
}

OplDecision
opl_decide(const OplOperation *op, const OplPromises *promises, const OplFinding *finding,
		   OplClock clock)
{
	OplFinding  f = *finding;
	Case        c = {op, promises, &f, clock.now, clock};
	OplDecision d;

	switch (door(&c))
	{
		case NOTE:
			d = recorded(op);
			d.note_failed = f.verdict == OPL_V_FOUND_FAILED;
			return d;
		case CONTRADICT:
			d = on_contradiction(&c);
			d.reason = "contradiction";
			/* A reversal: when a person lets it go on, an older word that the object is
			 * done may still come, and must not confirm it again. */
			d.note_failed = f.verdict == OPL_V_FOUND_FAILED;
			return d;
		case PASS_FAILED:
			f.verdict = OPL_V_FOUND_FAILED;
			break;
		case PASS:
			break;
	}
	d = by_table(&c);
	d.note_failed = f.verdict == OPL_V_FOUND_FAILED;
	d.take_object = shows_object(f.verdict) && !d.note_failed;
	check(op, promises, &d);
	return d;
}

/* --------------------------------------------------------------- the claim */

static OplDecision
claimed(const Case *c, OplState state, OplStep step)
{
	OplDecision d = become(c, state, step, deadline(c->promises, c->now));

	d.after.attempts++;
	return d;
}

static OplDecision
claimed_send(const Case *c)
{
	/* The end of the lease is a question: a provider that is paused is still asked. */
	OplDecision d = claimed(c, OPL_SUBMITTED, OPL_STEP_LOOKUP);

	d.after.tries++;
	d.after.last_sent_at = c->now;
	if (!c->op->tainted || c->op->first_sent_at == OPL_NEVER)
	{
		d.after.first_sent_at = c->now;
		d.after.place = c->promises->place;
	}
	if (c->op->trying_since == OPL_NEVER)
		d.after.trying_since = c->now;
	return d;
}

static bool
past_not_after(const Case *c)
{
	return c->op->not_after != OPL_NEVER && c->now >= c->op->not_after;
}

static const char *
why_no_try(const Case *c)
{
	return past_not_after(c) ? "not_after" : "gave_up";
}

/* A resend follows the send before it after a back-off, so that the outage of a
 * moment does not use up the tries; but not so late that it may not leave. */
static OplMoment
resend_at(const Case *c)
{
	OplOperation op = *c->op;
	Case         paced = *c;
	OplMoment    at;

	op.attempts = op.tries;
	paced.op = &op;
	at = surely_since(c->op->last_sent_at, c->clock) + (send_later(&paced) - c->now);
	return may_send(c, at) ? at : c->now;
}

static OplClaim
claim_send(const Case *c, OplDecision *d)
{
	if (!c->op->tainted && !tries_left(c, c->now))
		*d = end(c, OPL_FAILED, why_no_try(c));
	else if (c->op->tainted && !may_send(c, c->now))
		*d = look(c, c->now);
	else if (c->op->tainted && c->op->tries > 0 && resend_at(c) > c->now)
		*d = resend(c, resend_at(c));
	else if (c->promises->client)
	{
		*d = become(c, c->op->state, OPL_STEP_SEND, c->now);
		return OPL_CLAIM_CLIENT;
	}
	else
	{
		*d = claimed_send(c);
		return OPL_CLAIM_SEND;
	}
	return OPL_CLAIM_NOTHING;
}

static OplClaim
claim_lookup(const Case *c, OplDecision *d)
{
	/* Asked before the first send, and there will be none. */
	if (c->op->state == OPL_PENDING && !c->op->tainted && past_not_after(c))
	{
		*d = end(c, OPL_FAILED, "not_after");
		return OPL_CLAIM_NOTHING;
	}
	if (!c->promises->recipe)
	{
		*d = review(c, c->op->state == OPL_ACCEPTED ? "gave_up" : "no_lookup");
		return OPL_CLAIM_NOTHING;
	}
	*d = claimed(c, c->op->state, OPL_STEP_LOOKUP);
	return OPL_CLAIM_LOOKUP;
}

OplClaim
opl_claim(const OplOperation *op, const OplPromises *promises, OplStep step,
		  OplClock clock, OplDecision *decision)
{
	OplFinding lost = {.verdict = OPL_V_UNKNOWN,
					   .kind = OPL_KIND_SEND,
					   .started_at = clock.now,
					   .retry_at = OPL_NEVER,
					   .same_generation = true};
	Case       c = {op, promises, NULL, clock.now, clock};

	*decision = recorded(op);
	switch (op->state)
	{
		case OPL_SUBMITTED:
			*decision = opl_decide(op, promises, &lost, clock);
			decision->reason = "lost";
			return OPL_CLAIM_NOTHING;
		case OPL_PENDING:
		case OPL_UNKNOWN:
			return step == OPL_STEP_SEND ? claim_send(&c, decision)
										 : claim_lookup(&c, decision);
		case OPL_ACCEPTED:
		case OPL_REVIEW:
			if (op->contradiction)
				return OPL_CLAIM_NOTHING;
			return claim_lookup(&c, decision);
		default:
			return OPL_CLAIM_NOTHING;
	}
}

/* The lease takes the place of margin and deadline: until it has run out the client
 * may send. How far apart its sends are is the client's business. */
OplClaim
opl_claim_ticket(const OplOperation *op, const OplPromises *promises, OplMoment lease,
				 OplClock clock, OplDecision *decision)
{
	OplPromises ours = *promises;
	OplClaim    what;

	ours.client = false;
	ours.margin = later_of(promises->margin, lease);
	ours.initial = 0;
	what = opl_claim(op, &ours, OPL_STEP_SEND, clock, decision);
	if (what == OPL_CLAIM_SEND)
		decision->due_at = clock.now + lease;
	return what;
}

/* --------------------------------------------- the agenda, without evidence */

OplDecision
opl_put_off(const OplOperation *op, OplStep step, OplMoment now)
{
	Case c = {.op = op, .now = now};

	return become(&c, op->state, step, now + PUT_OFF);
}

/* Is asking the provider what it waits for? */
static OplVerb
may_look(const OplOperation *op, const OplPromises *promises)
{
	if (op->state != OPL_UNKNOWN && op->state != OPL_ACCEPTED && op->state != OPL_REVIEW)
		return OPL_VERB_WRONG_STATE;
	if (op->contradiction)
		return OPL_VERB_CONTRADICTION;
	return promises->recipe ? OPL_VERB_OK : OPL_VERB_NO_LOOKUP;
}

bool
opl_nudge(const OplOperation *op, const OplPromises *promises, OplMoment last_look,
		  OplMoment due_at, OplClock clock, OplDecision *decision)
{
	Case      c = {op, promises, NULL, clock.now, clock};
	OplMoment when = clock.now;

	*decision = recorded(op);
	if (may_look(op, promises) != OPL_VERB_OK)
		return false;
	if (last_look != OPL_NEVER)
		when = later_of(when, surely_since(last_look, clock) + promises->initial);
	if (when >= due_at)
		return false;
	*decision = become(&c, op->state, OPL_STEP_LOOKUP, when);
	return true;
}

bool
opl_condemn(const OplOperation *op, OplMoment now, OplDecision *decision)
{
	Case c = {.op = op, .now = now};

	*decision = recorded(op);
	if (op->state == OPL_REVIEW || opl_state_ended(op->state))
		return false;
	*decision = end(&c, OPL_REVIEW, "poisoned");
	return true;
}

/* ------------------------------------------------------------------ people */

OplDecision
opl_born(bool held, bool lookup_first, OplMoment not_after, OplMoment due_at)
{
	OplOperation op = {.state = held ? OPL_HELD : OPL_PENDING,
					   .generation = 1,
					   .trying_since = OPL_NEVER,
					   .first_sent_at = OPL_NEVER,
					   .last_sent_at = OPL_NEVER,
					   .not_after = not_after};
	OplDecision  d = recorded(&op);

	d.moved = true;
	if (!held)
	{
		d.step = lookup_first ? OPL_STEP_LOOKUP : OPL_STEP_SEND;
		d.due_at = due_at;
	}
	return d;
}

OplVerb
opl_cancel(const OplOperation *op, OplDecision *decision)
{
	Case c = {.op = op};
	bool never_sent = op->attempts == 0 && op->generation == 1;

	*decision = recorded(op);
	if (op->state == OPL_HELD || (op->state == OPL_PENDING && never_sent))
		*decision = end(&c, OPL_CANCELLED, NULL);
	else if (op->state == OPL_PENDING)
		*decision = end(&c, OPL_FAILED, "withdrawn");
	else if (opl_state_ended(op->state))
		return OPL_VERB_WRONG_STATE;
	else
		return OPL_VERB_TOO_LATE;
	return OPL_VERB_OK;
}

/* It may have left the agenda, as what was condemned has. */
OplVerb
opl_recheck(const OplOperation *op, const OplPromises *promises, OplMoment now,
			OplDecision *decision)
{
	Case    c = {.op = op, .promises = promises, .now = now};
	OplVerb verb = may_look(op, promises);

	*decision = recorded(op);
	if (verb == OPL_VERB_OK)
		*decision = become(&c, op->state, OPL_STEP_LOOKUP, now);
	return verb;
}

OplVerb
opl_approve(const OplOperation *op, bool lookup_first, OplMoment not_before,
			OplMoment now, OplDecision *decision)
{
	Case c = {.op = op};

	*decision = recorded(op);
	if (op->state != OPL_HELD)
		return OPL_VERB_WRONG_STATE;
	*decision = become(&c, OPL_PENDING, lookup_first ? OPL_STEP_LOOKUP : OPL_STEP_SEND,
					   later_of(now, not_before));
	return OPL_VERB_OK;
}

OplVerb
opl_reject(const OplOperation *op, OplDecision *decision)
{
	Case c = {.op = op};

	*decision = recorded(op);
	if (op->state != OPL_HELD)
		return OPL_VERB_WRONG_STATE;
	*decision = end(&c, OPL_CANCELLED, "rejected_by_person");
	return OPL_VERB_OK;
}

OplVerb
opl_resolve(const OplOperation *op, const OplPromises *promises, OplState outcome,
			bool has_external_id, OplClock clock, OplDecision *decision)
{
	Case c = {op, promises, NULL, clock.now, clock};

	*decision = recorded(op);
	if (op->state != OPL_UNKNOWN && op->state != OPL_ACCEPTED && op->state != OPL_REVIEW)
		return OPL_VERB_WRONG_STATE;
	if (outcome == OPL_CONFIRMED && !has_external_id)
		return OPL_VERB_NO_EXTERNAL_ID;
	if (outcome == OPL_FAILED && !quiet(&c, c.now))
		return OPL_VERB_NOT_QUIET;
	if (outcome == OPL_UNKNOWN)
	{
		OplOperation go_on = *op;

		go_on.state = OPL_UNKNOWN;
		c.op = &go_on;
		*decision = promises->recipe ? look(&c, c.now) : again(&c, c.now);
	}
	else
		*decision = end(&c, outcome, "resolved");
	decision->after.contradiction = false;
	decision->take_object = outcome == OPL_CONFIRMED;
	return OPL_VERB_OK;
}

static int
next_generation(const OplOperation *op)
{
	if (!op->adopted)
		return op->generation + 1;
	return (op->generation / ADOPTED_GENERATIONS + 1) * ADOPTED_GENERATIONS + 1;
}

OplVerb
opl_reissue(const OplOperation *op, const OplPromises *promises, bool lookup_first,
			OplMoment not_before, OplClock clock, OplDecision *decision)
{
	/* The lost time line may have reissued it, too: look before sending. */
	bool        look = lookup_first || (op->adopted && promises->recipe);
	OplDecision born =
		opl_born(false, look, op->not_after, later_of(clock.now, not_before));
	Case c = {op, promises, NULL, clock.now, clock};

	*decision = recorded(op);
	if (op->state != OPL_FAILED || op->contradiction)
		return OPL_VERB_WRONG_STATE;
	/* Else every request that left is proven to have done nothing. */
	if ((op->tainted || op->adopted) && !quiet(&c, c.now))
		return OPL_VERB_NOT_QUIET;
	*decision = born;
	decision->after.generation = next_generation(op);
	decision->after.attempts = op->attempts;
	if (op->adopted)
		decision->after.place = op->place; /* where the lost time line reissued it */
	return OPL_VERB_OK;
}

/* What another time line did for this operation nobody here can know. */
OplDecision
opl_adopt(const OplOperation *op, const OplPromises *promises, OplMoment created_at,
		  bool guarded, OplClock clock)
{
	OplOperation adopted = *op;
	OplFinding   lost = {.verdict = OPL_V_UNKNOWN,
						 .kind = OPL_KIND_SEND,
						 .started_at = clock.now,
						 .retry_at = OPL_NEVER,
						 .same_generation = true};
	Case         c = {&adopted, promises, &lost, clock.now, clock};
	OplDecision  d;

	if (op->state == OPL_CONFIRMED || op->state == OPL_CANCELLED)
		return recorded(op);
	adopted.adopted = op->adopted || !guarded;
	adopted.last_sent_at = clock.now;
	if (adopted.first_sent_at == OPL_NEVER)
		adopted.first_sent_at = created_at;
	/* Its next send, from here or from there, goes where the row says; what may have
	 * taken effect elsewhere may have been reissued to there. */
	if (op->place == OPL_NOWHERE || op->state == OPL_PENDING || op->state == OPL_FAILED)
		adopted.place = promises->place;
	else if (opl_elsewhere(op, promises))
		adopted.place = OPL_ANYWHERE;
	switch (op->state)
	{
		case OPL_FAILED:
			d = recorded(&adopted);
			d.moved = true;
			break;
		case OPL_HELD:
		case OPL_REVIEW:
			d = review(&c, "adopted");
			break;
		case OPL_ACCEPTED:
			d = stay(&c, c.now);
			break;
		default:
			adopted.tainted = true;
			d = by_table(&c);
			break;
	}
	if (op->contradiction)
	{
		d.step = OPL_STEP_NONE;
		d.due_at = OPL_NEVER;
	}
	d.reason = op->state == OPL_FAILED ? NULL : "adopted";
	return d;
}

/* ------------------------------------------------------------------- names */

static const char *const seal_names[OPL_SEAL_COUNT] = {
#define X(id, name) [OPL_SEAL_##id] = name,
	OPL_SEALS(X)
#undef X
};

static const char *const verdict_names[OPL_VERDICT_COUNT] = {
#define X(id, name) [OPL_V_##id] = name,
	OPL_VERDICTS(X)
#undef X
};

static const char *const step_names[] = {
	[OPL_STEP_SEND] = "send", [OPL_STEP_LOOKUP] = "lookup"};

/* The position of `name`, or -1. */
static int
position(const char *const *names, int count, const char *name)
{
	for (int i = 0; i < count; i++)
	{
		if (names[i] != NULL && strcmp(names[i], name) == 0)
			return i;
	}
	return -1;
}

const char *
opl_seal_name(OplSeal seal)
{
	return seal_names[seal];
}

bool
opl_seal_parse(const char *name, OplSeal *out)
{
	int i = position(seal_names, OPL_SEAL_COUNT, name);

	*out = i < 0 ? OPL_SEAL_NONE : (OplSeal) i;
	return i >= 0;
}

const char *
opl_verdict_name(OplVerdict verdict)
{
	return verdict_names[verdict];
}

bool
opl_verdict_parse(const char *name, OplVerdict *out)
{
	int i = position(verdict_names, OPL_VERDICT_COUNT, name);

	*out = i < 0 ? OPL_V_UNKNOWN : (OplVerdict) i;
	return i >= 0;
}

const char *
opl_step_name(OplStep step)
{
	return step == OPL_STEP_NONE ? NULL : step_names[step];
}

bool
opl_step_parse(const char *name, OplStep *out)
{
	int i = position(step_names, 3, name);

	*out = i < 0 ? OPL_STEP_NONE : (OplStep) i;
	return i >= 0;
}
