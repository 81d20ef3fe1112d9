#include "actors.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "probed.h"

static const OplMoment NOW = 100000 * TICK;
static const int       generations[KEYS] = {1, 2, 1001};

Actors::Actors(const Scenario &scenario) : s(scenario), p(promises_of(scenario))
{
	/* A moment that a small step makes look younger is followed for longer. */
	int longer = s.steps && s.size < LONG ? s.size : 0;

	cap_last = std::max(s.give_up, s.margin + s.flight + s.lag + 2) + longer;
	cap_first = s.ttl + longer;
	cap_trying = s.patience + longer;
	cap_since = std::max(cap_last, cap_trying);
}

static World
empty_world()
{
	World w;

	memset(&w, 0, sizeof w);
	for (auto &slot : w.slot)
		slot.object = 0;
	for (auto &keys : w.key)
		for (Key &key : keys)
			key.age = LONG;
	return w;
}

/* Agenda rows come due at whole ticks. */
static u8
remaining(OplMoment when)
{
	if (when == OPL_NEVER)
		return LONG;
	return (u8) std::min<OplMoment>(
		std::max<OplMoment>((when - NOW + TICK - 1) / TICK, 0), LONG - 1);
}

World
Actors::first() const
{
	World       w = empty_world();
	OplMoment   until = s.not_after == LONG ? OPL_NEVER : NOW + s.not_after * TICK;
	OplDecision d = opl_born(s.held, s.first, until, NOW + s.not_before * TICK);

	w.moves = s.moves != 0;
	w.now.external = NOBODY;
	w.now.since = LONG;
	store(&w.now, d);
	w.now.step = d.step;
	w.now.due = d.step == OPL_STEP_NONE ? (u8) LONG : remaining(d.due_at);
	w.now.not_before = (u8) s.not_before;
	return w;
}

/* ------------------------------------------------------------------- words */

void
Actors::say(const char *format, ...)
{
	char    text[400];
	va_list args;

	if (!stories)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	said = text;
}

static const char *
object_word(const Object &o)
{
	if (o.failed)
		return o.was_done ? "reversed" : "failed";
	return o.was_done ? "done" : "pending";
}

static std::string
age_word(u8 age)
{
	return age == LONG ? "never" : "-" + std::to_string(age);
}

std::string
Actors::picture(const World &w) const
{
	const Ledger &l = w.now;
	std::string   text = opl_state_name((OplState) l.state);
	char          more[200];

	snprintf(more, sizeof more, " gen %d%s%s%s tries %d seal %s first %s last %s",
	         generations[l.gen], l.tainted ? " tainted" : "",
	         l.contradiction ? " CONTRADICTION" : "", l.adopted ? " adopted" : "",
	         l.tries, opl_seal_name((OplSeal) l.sealed), age_word(l.first).c_str(),
	         age_word(l.last).c_str());
	text += more;
	if (l.step != OPL_STEP_NONE)
		text += std::string(", ") + opl_step_name((OplStep) l.step) + " in " +
			std::to_string(l.due);
	if (w.paused)
		text += ", provider paused";
	if (s.moves)
		text += std::string(", row names account ") + char('a' + w.place) +
			(l.place == PLACES      ? ""
			     : l.place > PLACES ? ", sent to who knows whom"
			                        : std::string(", sent to ") + char('a' + l.place));
	for (const Request &r : w.request)
	{
		if (r.phase != GONE)
			text += std::string(" | request of gen ") +
				std::to_string(generations[r.gen]) +
				(r.phase == WIRE ? " on the wire" : " at work") + ", age " +
				std::to_string(r.age);
	}
	for (int i = 0; i < OBJECTS; i++)
	{
		if (w.object[i].exists)
			text += std::string(" | object ") + char('A' + i) + " of gen " +
				std::to_string(generations[w.object[i].gen]) + " " +
				object_word(w.object[i]) + (l.external == i ? " (recorded)" : "") +
				(w.object[i].archived ? " (archived)" : "");
	}
	return text;
}

bool
Actors::ended(const World &w) const
{
	return opl_state_ended((OplState) w.now.state);
}

bool
Actors::waits_for_person(const World &w) const
{
	return w.now.state == OPL_REVIEW || w.now.state == OPL_HELD || w.paused;
}

/* -------------------------------------------------------------- properties */

void
Actors::blame(const char *property)
{
	if (!bad)
		bad = property;
}

static bool
any_living(const World &w)
{
	return std::any_of(w.object, w.object + OBJECTS, living);
}

const char *
Actors::check(const World &w) const
{
	const Ledger &l = w.now;
	OplState      state = (OplState) l.state;
	bool          needs_step = state == OPL_PENDING || state == OPL_SUBMITTED ||
		state == OPL_UNKNOWN || state == OPL_ACCEPTED ||
		(state == OPL_REVIEW && s.recipe && !l.contradiction && !l.condemned);
	bool happened = std::any_of(w.object, w.object + OBJECTS, [](const Object &o)
	                            { return o.exists && o.was_done; });

	if (std::count_if(w.object, w.object + OBJECTS, living) > 1)
		return "P1: two living effects";
	if (!w.exempt && any_living(w) && strcmp(opl_state_effect(state), "none") == 0)
		return "P2: no effect is reported, but there is one";
	if (state == OPL_CONFIRMED && !happened)
		return "P3: confirmed without an effect";
	if (state == OPL_CONFIRMED && l.external != NOBODY &&
	    (!w.object[l.external].was_done || (l.failed_ids >> l.external & 1) ||
	     (l.shown >> l.external & 1)))
		return "P3: confirmed, but the recorded object failed";
	if (needs_step && l.step == OPL_STEP_NONE)
		return "P4: not ended, and no next step";
	if (l.contradiction && l.step != OPL_STEP_NONE)
		return "P9: the machine goes on with what contradicts itself";
	if (l.tries > s.attempts)
		return "P10: more tries than allowed";
	if (state == OPL_CANCELLED && w.sent)
		return "P7: cancelled, but it was sent";
	return nullptr;
}

/* ------------------------------------------------------ the canonical world */

static int
rank(const Slot &a)
{
	return a.phase << 8 | a.current << 7 | a.orphan << 6 | a.age;
}

static void
sort_slots(World *w)
{
	Slot &a = w->slot[0], &b = w->slot[1];
	int   order = rank(a) - rank(b);

	if (order == 0)
		order = memcmp(&a, &b, sizeof a);
	if (order <= 0)
		return;
	std::swap(a, b);
	for (Request &r : w->request)
	{
		if (r.owner != NOBODY)
			r.owner ^= 1;
	}
}

static void
sort_requests(World *w)
{
	auto before = [](const Request &a, const Request &b)
	{
		return (a.phase << 12 | a.age << 6 | a.place << 5 | a.gen << 2 | a.owner) >
			(b.phase << 12 | b.age << 6 | b.place << 5 | b.gen << 2 | b.owner);
	};

	for (Request &r : w->request)
	{
		if (r.phase == GONE)
			r = Request();
	}
	for (int i = 1; i < REQUESTS; i++)
	{
		for (int j = i; j > 0 && before(w->request[j], w->request[j - 1]); j--)
			std::swap(w->request[j], w->request[j - 1]);
	}
}

static bool
owns_request(const World &w, int slot)
{
	return std::any_of(w.request, w.request + REQUESTS, [slot](const Request &r)
	                   { return r.phase != GONE && r.owner == slot; });
}

static bool
has_evidence(const Slot &slot)
{
	return slot.phase == ANSWERED || slot.phase == LOOKED;
}

/* Worlds that nothing can tell apart are made the same. A worker whose answer
 * will never come holds "unknown" already; and what a fenced worker has to say
 * without an object moves nothing, which lemma() proves for every operation. */
void
Actors::tidy(World *w) const
{
	for (int i = 0; i < SLOTS; i++)
	{
		Slot &slot = w->slot[i];

		if (slot.phase == WAITING && !owns_request(*w, i))
			slot.phase = ANSWERED, slot.verdict = OPL_V_UNKNOWN, slot.object = NOBODY;
		if (!slot.current && has_evidence(slot) && slot.object == NOBODY)
			slot = Slot();
		if (slot.phase == CLAIMED && !slot.current && slot.age > s.margin &&
		    !s.late_send)
			slot = Slot();
		if (slot.phase == IDLE)
			slot = Slot();
		else if (slot.phase != CLAIMED && slot.phase != LOOKING &&
		         slot.phase != LOOKED)
			slot.age = 0;
		if (!slot.current)
			slot.state = 0;
		if (slot.phase != LOOKING && slot.phase != LOOKED)
			slot.old = 0;
	}
	sort_slots(w);
	sort_requests(w);
	if (w->backup != 1)
		memset(&w->copy, 0, sizeof w->copy), w->copy_place = 0;
	if (!s.backup)
		w->now.created = 0;
	if (w->now.state != OPL_REVIEW || w->now.step != OPL_STEP_NONE)
		w->now.condemned = 0;
}

void
Actors::emit(World w, Class kind)
{
	if (!bad)
		bad = check(w);
	tidy(&w);
	out->push_back({pack(w), kind, bad});
	if (stories)
		stories->push_back(said);
	bad = nullptr;
}

/* ------------------------------------------------------------- the ledger */

/* What is on record of a moment that is so old: what was written before the clock was
 * set, lies elsewhere now. */
OplMoment
Actors::moment(const Ledger &l, u8 age, bool old) const
{
	OplMoment by = s.size * TICK;

	if (age == LONG)
		return OPL_NEVER;
	if (!old)
		by = 0;
	else if (l.step_of_clock == FORWARD)
		by = -by;
	return NOW - age * TICK + by;
}

OplClock
Actors::clock(const Ledger &l) const
{
	OplClock c = {NOW, OPL_NEVER, OPL_NEVER, 0};

	if (l.since != LONG)
		c.steady_since = NOW - l.since * TICK;
	if (l.step_of_clock == BACK && l.step_is_known)
	{
		c.set_back_by = s.size * TICK;
		c.set_back_from = c.steady_since + c.set_back_by;
	}
	return c;
}

static u8
age(OplMoment when, OplMoment cap)
{
	if (when == OPL_NEVER)
		return LONG;
	return (u8) std::min(std::max<OplMoment>((NOW - when) / TICK, 0), cap);
}

OplOperation
Actors::operation(const Ledger &l) const
{
	OplOperation op = {};

	op.state = (OplState) l.state;
	op.sealed = (OplSeal) l.sealed;
	op.tainted = l.tainted;
	op.contradiction = l.contradiction;
	op.adopted = l.adopted;
	op.generation = generations[l.gen];
	op.attempts = l.attempts;
	op.tries = l.tries;
	op.trying_since = moment(l, l.trying, l.old & OLD_TRYING);
	op.first_sent_at = moment(l, l.first, l.old & OLD_FIRST);
	op.last_sent_at = moment(l, l.last, l.old & OLD_LAST);
	op.not_after = l.not_after == LONG ? OPL_NEVER : NOW + l.not_after * TICK;
	op.place = l.place == PLACES ? OPL_NOWHERE
		: l.place > PLACES       ? OPL_ANYWHERE
		                         : 1 + l.place;
	return op;
}

/* A moment that a decision leaves as it was stays as old as it is. */
static void
keep(OplMoment now, OplMoment before, u8 *stored, OplMoment cap, u8 *old, u8 which)
{
	if (now == before)
		return;
	*stored = age(now, cap);
	*old &= ~which;
}

OplPromises
Actors::promises(int place) const
{
	OplPromises here = p;

	here.place = 1 + place;
	return here;
}

/* Carries out what a decision says. False: a generation we do not model. */
bool
Actors::store(Ledger *l, const OplDecision &d) const
{
	const OplOperation &op = d.after;
	const OplOperation  was = operation(*l);
	const int *gen = std::find(generations, generations + KEYS, op.generation);

	if (gen == generations + KEYS)
		return false;
	l->gen = (u8) (gen - generations);
	l->state = op.state;
	l->sealed = op.sealed;
	l->tainted = op.tainted;
	l->contradiction = op.contradiction;
	l->adopted = op.adopted;
	l->attempts = (u8) std::min(op.attempts, s.grows ? 3 : 1);
	l->tries = (u8) op.tries;
	keep(op.trying_since, was.trying_since, &l->trying, cap_trying, &l->old, OLD_TRYING);
	keep(op.first_sent_at, was.first_sent_at, &l->first, cap_first, &l->old, OLD_FIRST);
	keep(op.last_sent_at, was.last_sent_at, &l->last, cap_last, &l->old, OLD_LAST);
	l->not_after = remaining(op.not_after);
	l->place = (u8) (op.place - 1);
	if (op.place == OPL_NOWHERE || op.place == OPL_ANYWHERE)
		l->place = (u8) (op.place == OPL_NOWHERE ? PLACES : PLACES + 1);
	return true;
}

void
Actors::follow(World *w, const OplDecision &d, int object, bool person)
{
	Ledger      *l = &w->now;
	const Ledger before = *l;

	if (!opl_state_may_become((OplState) before.state, d.after.state))
		blame("P8: the evidence needs an arrow that does not exist");
	probed_arrow((OplState) before.state, d.after.state);
	store(l, d);
	if (!d.moved && memcmp(l, &before, sizeof before) != 0)
		blame("P8: not moved, but changed");
	if (!person && before.contradiction &&
	    (!l->contradiction || l->state != before.state))
		blame("P9: a contradiction was closed by the machine");
	if (!person && before.state == OPL_REVIEW && d.step == OPL_STEP_SEND)
		blame("P10: the machine sends what a person reviews");
	if (d.moved && d.step != OPL_STEP_NONE)
	{
		int longest = d.step == OPL_STEP_SEND
			? std::max({(int) (p.max / TICK), s.retry, (int) before.not_before, 1})
			: std::max({10, s.retry, s.give_up, s.margin + s.timeout + 1});

		if (d.due_at < NOW)
			blame("P11: a step is due in the past");
		if (d.due_at > NOW + longest * TICK)
			blame("P11: the next step is later than any wait");
	}
	if (d.moved)
	{
		l->step = d.step;
		l->due = d.step == OPL_STEP_NONE ? (u8) LONG : remaining(d.due_at);
	}
	if (d.pause)
		w->paused = 1;
	if (object != NOBODY && d.note_failed && !s.anonymous)
		l->failed_ids |= 1 << object;
	if (object != NOBODY && d.take_object && !s.anonymous)
	{
		l->external = (u8) object;
		l->failed_ids &= ~(1 << object);
		if (person)
			l->shown &= ~(1 << object);
	}
}

OplFinding
Actors::finding(const World &w, const Finding &f) const
{
	const Ledger &l = w.now;
	OplFinding    r = {};
	bool          known = l.external != NOBODY && !(l.failed_ids >> l.external & 1);

	r.verdict = f.verdict;
	r.kind = f.kind;
	r.keyed = f.flag && f.verdict != OPL_V_NOT_PROCESSED;
	r.retry_at = f.flag && f.verdict == OPL_V_NOT_PROCESSED ? NOW + s.retry * TICK
	                                                         : OPL_NEVER;
	r.started_at = f.started_at;
	r.same_generation = true;
	r.unmarked = s.unmarked && f.flag && f.verdict == OPL_V_UNKNOWN;
	r.object = OPL_OBJECT_NONE;
	if (f.object == NOBODY || s.anonymous)
		return r;
	if (known)
		r.object = l.external == f.object ? OPL_OBJECT_SAME : OPL_OBJECT_OTHER;
	r.object_failed = l.failed_ids >> f.object & 1;
	r.same_generation = w.object[f.object].gen == l.gen;
	return r;
}

/* A refusal or an error that may be the key's stored answer. */
static bool
tells_stored_error(const Ledger &l, OplVerdict verdict)
{
	return verdict == OPL_V_STORED_ERROR || verdict == OPL_V_ALREADY_DONE ||
		(verdict == OPL_V_REJECTED && l.tainted);
}

void
Actors::decide(World w, const Finding &f, Class kind)
{
	OplOperation op = operation(w.now);
	OplFinding   shown = finding(w, f);
	OplPromises  here = promises(f.place);
	OplDecision  d = opl_decide(&op, &here, &shown, clock(w.now));

	probed_evidence(op, shown);
	if (f.verdict == OPL_V_FOUND_FAILED && f.object != NOBODY)
		w.now.shown |= 1 << f.object;
	if (f.kind == OPL_KIND_SEND && tells_stored_error(w.now, f.verdict))
		w.now.told |= 1 << w.now.gen;
	if (f.object != NOBODY)
		w.object[f.object].seen = s.archives != 0;
	follow(&w, d, f.object, false);
	if (stories && d.reason)
		said += std::string(" (") + d.reason + ")";
	if (stories && !d.moved)
		said += " (noted)";
	emit(w, kind);
}

/* ------------------------------------------------------------- the workers */

static int
idle_slot(const World &w)
{
	for (int i = 0; i < SLOTS; i++)
	{
		if (w.slot[i].phase == IDLE)
			return i;
	}
	return -1;
}

static bool
has_worker(const World &w)
{
	return std::any_of(w.slot, w.slot + SLOTS, [](const Slot &slot)
	                   { return slot.phase != IDLE && slot.current; });
}

static bool
may_claim(const World &w)
{
	bool submitted = w.now.state == OPL_SUBMITTED;
	bool due = w.now.due == 0 || (submitted && !has_worker(w));

	if (w.now.step == OPL_STEP_NONE || idle_slot(w) < 0)
		return false;
	return due && (submitted || w.now.step != OPL_STEP_SEND || !w.paused);
}

void
Actors::claim(const World &w)
{
	OplOperation op = operation(w.now);
	OplDecision  d;
	OplClaim     what;
	OplPromises  here = promises(w.place);
	World        next = w;

	if (!may_claim(w))
		return;
	what = opl_claim(&op, &here, (OplStep) w.now.step, clock(w.now), &d);
	if (what == OPL_CLAIM_SEND && s.client)
		blame("P10: the worker sends what only a client may");
	if (what == OPL_CLAIM_CLIENT)
	{
		/* The worker leaves it as it is; whoever calls op_claim() asks again. */
		follow(&next, d, NOBODY, false);
		/* A longer lease than any before: it may send at its end, and not later. */
		OplMoment longer = (s.margin + 1) * TICK;
		OplMoment reach = std::max(s.flight, s.timeout) * TICK;

		if (opl_claim_ticket(&op, &here, longer, clock(w.now), &d) == OPL_CLAIM_SEND && op.tainted &&
		    NOW + longer + reach >= op.first_sent_at + p.ttl)
			blame("P6: what the lease allows arrives after the key was forgotten");
		what = opl_claim_ticket(&op, &here, s.margin * TICK, clock(w.now), &d);
		if (what == OPL_CLAIM_SEND && d.due_at < NOW + s.margin * TICK)
			blame("P6: the lease outlives its row of the agenda");
	}
	if (what != OPL_CLAIM_NOTHING)
	{
		claimed(next, idle_slot(w), what, d);
		return;
	}
	say(w.now.state == OPL_SUBMITTED
	        ? "worker: finds it submitted, by a worker that is gone or late (%s)"
	        : "worker: the row came due, and the claim is refused (%s)",
	    d.reason ? d.reason : "-");
	follow(&next, d, NOBODY, false);
	if (!d.moved)
		next.now.step = OPL_STEP_NONE, next.now.due = LONG;
	emit(next, MACHINE);
}

/* A session holds the operation, so the answer that we have waits, and our own row
 * comes due meanwhile. */
void
Actors::put_off(const World &w)
{
	OplOperation op = operation(w.now);
	World        next = w;

	if (!s.holds || w.now.step == OPL_STEP_NONE || w.now.due > 0 || !has_worker(w))
		return;
	say("worker: its row came due, but a session holds the operation");
	follow(&next, opl_put_off(&op, (OplStep) w.now.step, NOW), NOBODY, false);
	if (next.now.due == 0)
		blame("L2: a row that is put off comes due at once");
	emit(next, REST);
}

void
Actors::condemn(const World &w)
{
	OplOperation op = operation(w.now);
	World        next = w;
	OplDecision  d;

	if (!s.poison || !opl_condemn(&op, NOW, &d))
		return;
	say("worker: fails on it again and again; a person takes it");
	follow(&next, d, NOBODY, false);
	next.now.condemned = 1;
	emit(next, REST);
}

void
Actors::claimed(World w, int slot, OplClaim what, const OplDecision &d)
{
	Slot &mine = w.slot[slot];

	if (what == OPL_CLAIM_SEND && (w.now.told >> w.now.gen & 1))
		blame("P6: sent again after a stored error was seen");
	if (what == OPL_CLAIM_SEND && w.now.not_after == 0)
		blame("P10: sent after not_after");
	if (what == OPL_CLAIM_SEND && w.now.not_before > 0)
		blame("P10: sent before not_before");
	follow(&w, d, NOBODY, false);
	for (Slot &other : w.slot)
		other.current = 0;
	mine = Slot();
	mine.phase = what == OPL_CLAIM_SEND ? CLAIMED : LOOKING;
	mine.age = what == OPL_CLAIM_SEND ? 0 : w.now.last;
	mine.current = 1;
	mine.state = w.now.state;
	mine.gen = w.now.gen;
	mine.place = w.place;
	say(what == OPL_CLAIM_SEND ? "worker: claims a send, commits"
	                           : "worker: claims a lookup, commits");
	emit(w, MACHINE);
}

void
Actors::crash(World w, int slot)
{
	for (Request &r : w.request)
	{
		if (r.phase != GONE && r.owner == slot)
			r.owner = NOBODY;
	}
	w.slot[slot] = Slot();
	say("a worker dies");
	emit(w, REST);
}

void
Actors::hand_over(World w, int slot)
{
	Slot    &mine = w.slot[slot];
	Request *r = std::find_if(w.request, w.request + REQUESTS,
	                          [](const Request &q) { return q.phase == GONE; });

	if (r == w.request + REQUESTS)
	{
		fprintf(stderr, "model: %s: too many requests\n", s.name.c_str());
		abort();
	}
	*r = {WIRE, 0, mine.gen, (u8) (mine.orphan ? NOBODY : slot), mine.place};
	w.sent = 1;
	if (mine.orphan)
		mine = Slot();
	else
		mine.phase = WAITING;
	say("worker: sends generation %d", generations[r->gen]);
	emit(w, MACHINE);
	if (s.doubles && r + 1 < w.request + REQUESTS)
	{
		r[1] = {WIRE, 0, r->gen, NOBODY, r->place};
		say("worker: sends generation %d, and the wire doubles the request",
		    generations[r->gen]);
		emit(w, MACHINE);
	}
}

static World
with_evidence(World w, int slot, OplVerdict verdict, int object, bool flag)
{
	Slot &mine = w.slot[slot];

	for (Request &r : w.request)
	{
		if (r.phase != GONE && r.owner == slot)
			r.owner = NOBODY;
	}
	mine.phase = mine.phase == LOOKING ? LOOKED : ANSWERED;
	mine.verdict = verdict;
	mine.object = (u8) object;
	mine.flag = flag;
	return w;
}

void
Actors::settle(const World &w, int slot)
{
	const Slot mine = w.slot[slot];
	World      next = w;
	bool       mine_still = mine.current && mine.state == w.now.state;
	bool       lookup = mine.phase == LOOKED;
	Finding    f = {(OplVerdict) mine.verdict, mine.object, mine.flag != 0,
	                OPL_KIND_LATE, NOW, mine.place};

	if (mine_still)
		f.kind = lookup ? OPL_KIND_LOOKUP : OPL_KIND_SEND;
	if (lookup && w.now.last != LONG)
		f.started_at = moment(w.now, w.now.last, mine.old) +
			(mine.age == LONG ? 0 : mine.age * TICK);
	next.slot[slot] = Slot();
	say("worker: settles %s%s", opl_verdict_name(f.verdict),
	    mine_still ? "" : ", late");
	decide(next, f, MACHINE);
}

void
Actors::worker(const World &w, int slot)
{
	const Slot &mine = w.slot[slot];

	if (mine.phase == IDLE)
		return;
	if (s.crashes || mine.orphan)
		crash(w, slot);
	switch (mine.phase)
	{
		case CLAIMED:
			if (mine.age <= s.margin || s.late_send)
				hand_over(w, slot);
			if (mine.orphan)
				break;
			say("worker: does not send (no connection, or too late)");
			emit(with_evidence(w, slot, OPL_V_NOT_SENT, NOBODY, false), MACHINE);
			break;
		case WAITING:
			if (s.unmarked)
				break;
			say("worker: gives up waiting");
			emit(with_evidence(w, slot, OPL_V_UNKNOWN, NOBODY, false), MACHINE);
			break;
		case LOOKING:
			look(w, slot);
			break;
		default:
			settle(w, slot);
	}
}

/* -------------------------------------------------------------- the lookup */

enum Shown
{
	HIDDEN,
	SHOWN_PENDING,
	SHOWN_DONE,
	SHOWN_FAILED
};

static Shown
present(const Object &o)
{
	if (o.archived)
		return HIDDEN;
	return o.failed ? SHOWN_FAILED : o.was_done ? SHOWN_DONE : SHOWN_PENDING;
}

static Shown
former(const Object &o)
{
	if (o.failed && o.was_done)
		return SHOWN_DONE;
	return o.was_pending ? SHOWN_PENDING : HIDDEN;
}

void
Actors::looked(World w, int slot, OplVerdict verdict, int object)
{
	Class kind = MACHINE;

	/* A provider whose lookups fail for ever keeps a first send waiting for
	 * ever; that is an outage, not a circle of the machine. */
	if (verdict == OPL_V_INCONCLUSIVE && w.now.state == OPL_PENDING)
		kind = REST;
	/* Nor is it one that nobody names the place again where it was sent. */
	if (w.now.state == OPL_PENDING && w.now.place != PLACES &&
	    w.now.place != w.slot[slot].place)
		kind = REST;
	if (object == NOBODY)
		say("lookup: %s", opl_verdict_name(verdict));
	else
		say("lookup: %s, object %c", opl_verdict_name(verdict), 'A' + object);
	emit(with_evidence(w, slot, verdict, object, false), kind);
}

void
Actors::classify_list(const World &w, int slot, const u8 *shown)
{
	int ours = 0, others = 0, last = NOBODY, failed = 0;

	for (int i = 0; i < OBJECTS; i++)
	{
		bool same = w.object[i].gen == w.slot[slot].gen;

		if (s.unmarked)
			continue;

		bool lives = shown[i] == SHOWN_PENDING || shown[i] == SHOWN_DONE;

		if (lives && same)
			ours++, last = i;
		else if (lives)
			others++;
		else if (shown[i] == SHOWN_FAILED && same)
			failed++;
	}
	if (ours > 1 || others > 0)
		looked(w, slot, OPL_V_CONTRADICTION, NOBODY);
	else if (ours == 1)
		looked(w, slot,
		       shown[last] == SHOWN_DONE ? OPL_V_FOUND : OPL_V_FOUND_PENDING, last);
	else if (failed == 0)
		looked(w, slot, OPL_V_ABSENT, NOBODY);
	for (int i = 0; failed > 0 && ours + others == 0 && i < OBJECTS; i++)
	{
		if (shown[i] == SHOWN_FAILED && w.object[i].gen == w.slot[slot].gen)
			looked(w, slot, OPL_V_FOUND_FAILED, i);
	}
}

/* Every object as it is, or, within the lag, as it was. */
void
Actors::look_further(World w, int slot, int object, u8 *shown)
{
	const Object &o = w.object[object];
	bool          lags = s.lag > 0 && o.changed <= s.lag;

	if (object == OBJECTS)
	{
		classify_list(w, slot, shown);
		return;
	}
	shown[object] = HIDDEN;
	if (o.exists && o.place == w.slot[slot].place)
		shown[object] = present(o);
	look_further(w, slot, object + 1, shown);
	if (!o.exists || o.place != w.slot[slot].place || o.archived || !(lags || s.stale))
		return;
	shown[object] = former(o);
	look_further(w, slot, object + 1, shown);
	if (former(o) != HIDDEN && ((s.lag > 0 && o.made <= s.lag) || s.stale))
	{
		shown[object] = HIDDEN;
		look_further(w, slot, object + 1, shown);
	}
}

void
Actors::look(const World &w, int slot)
{
	u8 shown[OBJECTS + 1];

	looked(w, slot, OPL_V_INCONCLUSIVE, NOBODY);
	look_further(w, slot, 0, shown);
}

/* -------------------------------------------------- the wire, the provider */

/* Answers arrive or are lost. A lost answer that changed nothing is a request
 * that never arrived, and that is in the model already. */
void
Actors::answer(World w, int request, OplVerdict verdict, int object, bool flag,
               bool changed)
{
	u8 owner = w.request[request].owner;

	w.request[request] = Request();
	if (s.unmarked && object != NOBODY)
		verdict = OPL_V_UNKNOWN, object = NOBODY, flag = true;
	if (owner != NOBODY)
	{
		std::string before = said;

		if (stories)
			said += std::string(", answers ") + opl_verdict_name(verdict) +
				(flag ? " (from behind the key, or Retry-After)" : "");
		emit(with_evidence(w, owner, verdict, object, flag), MACHINE);
		said = before;
	}
	if (!changed || s.unmarked)
		return;
	if (stories)
		said += ", the answer is lost";
	emit(w, MACHINE);
}

bool
Actors::locked(const World &w, const Request &mine) const
{
	if (w.key[mine.place][mine.gen].status == STUCK)
		return true;
	return s.lock && std::any_of(w.request, w.request + REQUESTS,
	                             [&mine](const Request &r)
	                             {
		                             return r.phase == WORK && r.gen == mine.gen &&
			                             r.place == mine.place;
	                             });
}

/* What an answer that shows an object says, by Kept. */
static const OplVerdict shown_as[] = {OPL_V_CONFIRMED, OPL_V_ACCEPTED,
                                      OPL_V_FOUND_FAILED};

void
Actors::replay(const World &w, int request)
{
	const Request &r = w.request[request];
	const Key    &key = w.key[r.place][r.gen];
	const Object &o = w.object[key.object];
	Kept          how = (Kept) key.kept;

	if (key.status == KEPT_ERROR)
	{
		say("provider: replays the stored 500");
		answer(w, request, s.marked ? OPL_V_STORED_ERROR : OPL_V_UNKNOWN, NOBODY,
		       s.marked, false);
		return;
	}
	if (key.status == KEPT_REFUSAL)
	{
		say("provider: replays the stored refusal");
		answer(w, request, OPL_V_REJECTED, NOBODY, s.marked || s.declared, false);
		return;
	}
	if (s.keeps == OPL_STORES_STATE)
		how = o.failed ? AS_FAILED : o.was_done ? AS_DONE : AS_PENDING;
	say("provider: knows the key, shows object %c", 'A' + key.object);
	answer(w, request, shown_as[how], key.object, false, false);
}

void
Actors::take_key(World w, int request)
{
	Request &r = w.request[request];
	Key     &key = w.key[r.place][r.gen];

	if (s.key && key.age != LONG && key.age >= s.ttl)
		blame("P6: a resend arrives after the key was forgotten");
	if (s.key && locked(w, r))
	{
		say("provider: the key is in progress");
		answer(w, request, OPL_V_IN_PROGRESS, NOBODY, false, false);
		return;
	}
	if (s.key && key.status != FREE)
	{
		replay(w, request);
		return;
	}
	if (s.key && key.age == LONG)
		key.age = 0;
	r.phase = WORK;
	say("provider: takes the request of generation %d and works",
	    generations[r.gen]);
	emit(w, MACHINE);
}

void
Actors::arrive(const World &w, int request)
{
	const Request &r = w.request[request];
	const Key     &key = w.key[r.place][r.gen];
	bool known = key.age != LONG;
	bool lives = std::any_of(w.object, w.object + OBJECTS, [&r](const Object &o)
	                         { return living(o) && o.place == r.place; });

	if (s.refuses)
	{
		say("provider: refuses before it looks at the key");
		answer(w, request, OPL_V_REJECTED, NOBODY, s.mismarks, false);
	}
	if (s.busy)
	{
		say("provider: too busy");
		answer(w, request, OPL_V_NOT_PROCESSED, NOBODY, false, false);
		say("provider: too busy, come back later");
		answer(w, request, OPL_V_NOT_PROCESSED, NOBODY, true, false);
	}
	if (s.auth)
	{
		say("provider: does not know us");
		answer(w, request, OPL_V_BLOCKED, NOBODY, false, false);
	}
	if (s.already && lives)
	{
		say("provider: already done");
		answer(w, request, OPL_V_ALREADY_DONE, NOBODY, false, false);
	}
	if (s.mismatch && known)
	{
		say("provider: other parameters under this key");
		answer(w, request, OPL_V_MISMATCH, NOBODY, false, false);
	}
	if (s.forgets && known)
	{
		World next = w;

		next.key[r.place][r.gen] = {FREE, 0, LONG, 0};
		next.broken = 1;
		take_key(next, request);
	}
	take_key(w, request);
}

int
Actors::create(World *w, const Request &r, Kept how)
{
	for (int i = 0; i < OBJECTS; i++)
	{
		Object &o = w->object[i];

		if (o.exists)
			continue;
		o.exists = 1;
		o.gen = r.gen;
		o.place = r.place;
		o.was_pending = how == AS_PENDING;
		o.was_done = how == AS_DONE;
		o.failed = how == AS_FAILED;
		if (how != AS_FAILED && strcmp(opl_state_effect((OplState) w->now.state),
		                               "none") == 0 && !w->exempt)
			blame("P5: no effect was reported, and now there is one");
		return i;
	}
	fprintf(stderr, "model: %s: too many objects\n", s.name.c_str());
	abort();
}

/* What a provider keeps when its answer is an error. */
void
Actors::keep_error(World *w, const Request &r, bool took_effect, int object) const
{
	Key *key = &w->key[r.place][r.gen];

	if (!s.key || s.drops)
		return;
	if (s.keeps == OPL_STORES_ALL)
		key->status = KEPT_ERROR;
	else if (s.keeps == OPL_STORES_STATE && took_effect)
	{
		key->status = KEPT_OBJECT;
		key->object = (u8) object;
	}
}

void
Actors::effect(const World &w, int request, Kept how)
{
	static const char *words[] = {"done", "pending", "failed at once"};
	const Request           r = w.request[request];
	int                     gen = r.gen;
	World                   next = w;
	int                     object = create(&next, r, how);
	World                   kept = next;
	const char             *blamed = bad;

	/* Who keeps successes only lets a key go whose object failed at once. */
	if (s.key && s.keeps > (how == AS_FAILED ? OPL_STORES_SUCCESS : OPL_STORES_NOTHING))
		kept.key[r.place][gen] = {KEPT_OBJECT, (u8) object, w.key[r.place][gen].age,
		                          (u8) how};
	say("provider: object %c of generation %d, %s", 'A' + object,
	    generations[gen], words[how]);
	answer(kept, request, shown_as[how], object, false, true);
	if (!s.clean && s.errors)
	{
		World failed = next;

		bad = blamed;
		keep_error(&failed, r, true, object);
		failed.request[request] = Request();
		say("provider: object %c of generation %d, %s, then answers 500",
		    'A' + object, generations[gen], words[how]);
		emit(failed, MACHINE);
	}
	if (s.dies)
	{
		World dead = next;

		bad = blamed;
		if (s.key && s.lock)
			dead.key[r.place][gen].status = STUCK;
		dead.request[request] = Request();
		say("provider: object %c of generation %d, %s, then dies at work",
		    'A' + object, generations[gen], words[how]);
		emit(dead, MACHINE);
	}
	bad = blamed;
	say("provider: object %c of generation %d, %s", 'A' + object,
	    generations[gen], words[how]);
	if (s.lies)
		answer(next, request, OPL_V_REJECTED, NOBODY, false, false);
	bad = blamed;
	if (s.busy_lies)
		answer(next, request, OPL_V_NOT_PROCESSED, NOBODY, false, false);
	bad = blamed;
	if (s.auth_lies)
		answer(next, request, OPL_V_BLOCKED, NOBODY, false, false);
	bad = nullptr;
}

void
Actors::at_work(const World &w, int request)
{
	const Request r = w.request[request];

	effect(w, request, AS_DONE);
	if (s.pends)
		effect(w, request, AS_PENDING);
	if (s.fails_now)
		effect(w, request, AS_FAILED);
	if (s.declines)
	{
		World next = w;

		if (s.key && s.keeps >= OPL_STORES_STATE && !s.drops)
			next.key[r.place][r.gen].status = KEPT_REFUSAL;
		say("provider: refuses");
		answer(next, request, OPL_V_REJECTED, NOBODY, s.declared != 0, true);
		if (s.declared == 2)
			answer(next, request, OPL_V_REJECTED, NOBODY, false, false);
	}
	if (s.errors)
	{
		World next = w;

		keep_error(&next, r, false, NOBODY);
		next.request[request] = Request();
		say("provider: 500, without an effect");
		emit(next, MACHINE);
	}
}

/* What becomes of objects by themselves. */
void
Actors::objects(const World &w)
{
	for (int i = 0; i < OBJECTS; i++)
	{
		const Object &o = w.object[i];
		World         next = w;

		next.object[i].changed = 0;
		if (living(o) && !o.was_done)
		{
			next.object[i].was_done = 1;
			say("provider: object %c becomes done", 'A' + i);
			emit(next, MACHINE);
			next.object[i].was_done = 0;
		}
		if (living(o) && (o.was_done ? s.reverses : s.fails))
		{
			next.object[i].failed = 1;
			say("provider: object %c %s", 'A' + i,
			    o.was_done ? "is reversed" : "fails");
			emit(next, MACHINE);
		}
		if (s.revives && o.exists && o.failed && !w.broken)
		{
			next = w;
			next.broken = 1;
			next.object[i].failed = 0;
			next.object[i].was_done = 1;
			say("provider: object %c, failed, becomes done", 'A' + i);
			emit(next, MACHINE);
		}
		if (s.archives && o.seen && !o.archived)
		{
			next = w;
			next.object[i].archived = 1;
			say("provider: object %c is archived", 'A' + i);
			emit(next, MACHINE);
		}
	}
}

/* Somebody did it by hand, or with a ledger that is lost: who looks first sees it, and
 * until then nobody here can know. */
void
Actors::beforehand(const World &w)
{
	static const char *words[] = {"done", "pending", "failed"};
	const bool         may[] = {true, s.pends != 0, s.fails_now != 0};
	OplState           state = (OplState) w.now.state;

	if (!s.there || w.exempt || w.now.attempts > 0 || w.now.gen > 0 || w.backup > 0 ||
	    (state != OPL_HELD && !(state == OPL_PENDING && s.first)))
		return;
	for (int how = AS_DONE; how <= AS_FAILED; how++)
	{
		World next = w;

		if (!may[how])
			continue;
		next.exempt = 1;
		create(&next, Request(), (Kept) how);
		next.object[0].made = next.object[0].changed = s.lag > 0 ? (u8) (s.lag + 1) : 0;
		say("somebody had it made already: object A, %s", words[how]);
		emit(next, REST);
	}
}

/* Any event that ever was, at any moment, in any order, again and again. Not
 * for ever, though: no circle is made of webhooks. */
void
Actors::webhooks(const World &w)
{
	static const OplVerdict verdicts[] = {OPL_V_FOUND_PENDING, OPL_V_FOUND,
	                                      OPL_V_FOUND_FAILED};

	for (int i = 0; i < OBJECTS; i++)
	{
		const Object &o = w.object[i];
		const bool    was[] = {o.was_pending != 0, o.was_done != 0, o.failed != 0};

		for (int v = 0; o.exists && v < 3; v++)
		{
			if (!was[v])
				continue;
			say("webhook: %s, object %c", opl_verdict_name(verdicts[v]), 'A' + i);
			decide(w, {verdicts[v], i, false, OPL_KIND_DOOR, NOW, w.place}, REST);
		}
	}
}

/* -------------------------------------------------------------------- time */

/* Does a worker have something to do before time passes? */
bool
Actors::urgent(const World &w) const
{
	for (int i = 0; i < SLOTS; i++)
	{
		if (w.slot[i].phase == IDLE)
			continue;
		if (w.slot[i].phase != WAITING)
			return true;
	}
	return may_claim(w);
}

static void
older(u8 *age, OplMoment cap)
{
	if (*age != LONG && *age < cap)
		++*age;
}

static void
nearer(u8 *remaining)
{
	if (*remaining != LONG && *remaining > 0)
		--*remaining;
}

void
Actors::tick(World w)
{
	Class   kind = urgent(w) ? REST : CLOCK;
	Ledger *ledgers[] = {&w.now, &w.copy};

	for (Ledger *l : ledgers)
	{
		older(&l->trying, cap_trying);
		older(&l->first, cap_first);
		older(&l->created, s.ttl);
		older(&l->last, cap_last);
		older(&l->since, cap_since);
		nearer(&l->due);
		nearer(&l->not_after);
		nearer(&l->not_before);
	}
	for (Slot &slot : w.slot)
	{
		if (slot.phase == CLAIMED)
			older(&slot.age, s.margin + 1);
	}
	for (auto &keys : w.key)
		for (Key &key : keys)
			older(&key.age, s.ttl);
	for (Object &o : w.object)
	{
		if (o.exists && s.lag > 0)
			older(&o.made, s.lag + 1), older(&o.changed, s.lag + 1);
	}
	for (Request &r : w.request)
	{
		if (r.phase == GONE || ++r.age <= s.flight + 2 * s.late_effect)
			continue;
		if (r.phase == WORK && s.key && s.lock && s.dies)
			w.key[r.place][r.gen].status = STUCK;
		else if (r.phase == WORK)
			keep_error(&w, r, false, NOBODY);
		r = Request();
	}
	say("a tick passes");
	emit(w, kind);
}

/* Once, at any moment. What somebody saw happen puts right the agenda; what happened
 * while nobody was there ends the workers, and nothing waits longer for it. */
void
Actors::set_clock(const World &w)
{
	static const char *const words[] = {
		"the clock is set forward", "the clock is set back",
		"server down, the clock is set forward", "server down, the clock is set back"};

	for (int how = 0; how < 4 && w.now.step_of_clock == UNSET; how++)
	{
		World   next = w;
		Ledger *l = &next.now;
		bool    seen = how < 2;

		if (!(s.steps >> how & 1))
			continue;
		l->step_of_clock = how % 2 ? BACK : FORWARD;
		l->step_is_known = seen;
		l->since = 0;
		l->old = (l->trying != LONG ? OLD_TRYING : 0) |
			(l->first != LONG ? OLD_FIRST : 0) | (l->last != LONG ? OLD_LAST : 0);
		for (Slot &slot : next.slot)
			slot.old = 1;
		if (!seen)
		{
			for (Slot &slot : next.slot)
				slot = Slot();
			for (Request &q : next.request)
				q.owner = q.phase == GONE ? 0 : NOBODY;
		}
		if (l->step != OPL_STEP_NONE &&
		    (!seen || (how == 0 && l->state != OPL_SUBMITTED)))
			l->due = 0;
		say("%s by %d ticks", words[how], s.size);
		emit(next, REST);
	}
}

/* ------------------------------------------------------------------ people */

void
Actors::person(const World &w, OplVerb verb, const OplDecision &d, int object)
{
	World next = w;
	u8    gen = w.now.gen;

	if (verb != OPL_VERB_OK)
		return;
	if (!store(&next.now, d) || (next.now.gen != gen && !s.reissue))
		return;
	next = w;
	follow(&next, d, object, true);
	if (next.now.gen != gen)
		next.now.external = NOBODY;
	emit(next, REST);
}

void
Actors::people(const World &w)
{
	OplOperation op = operation(w.now);
	OplPromises  here = promises(w.place);
	OplDecision  d;
	OplVerb      verb;

	say("person: approves");
	verb = opl_approve(&op, s.first, NOW + w.now.not_before * TICK, NOW, &d);
	person(w, verb, d, NOBODY);
	say("person: rejects");
	verb = opl_reject(&op, &d);
	person(w, verb, d, NOBODY);
	say("person: cancels");
	verb = opl_cancel(&op, &d);
	person(w, verb, d, NOBODY);

	/* A person tells the truth: looks at the provider, and says what is there. */
	for (int i = 0; i < OBJECTS; i++)
	{
		if (!living(w.object[i]) || !w.object[i].was_done)
			continue;
		say("person: it happened, object %c", 'A' + i);
		verb = opl_resolve(&op, &here, OPL_CONFIRMED, true, clock(w.now), &d);
		person(w, verb, d, i);
	}
	say("person: it happened, but which object?");
	verb = opl_resolve(&op, &p, OPL_CONFIRMED, false, clock(w.now), &d);
	person(w, verb, d, NOBODY);
	if (!any_living(w) || s.person_lies)
	{
		say("person: it did not happen");
		verb = opl_resolve(&op, &here, OPL_FAILED, false, clock(w.now), &d);
		person(w, verb, d, NOBODY);
	}
	say("person: go on");
	verb = opl_resolve(&op, &here, OPL_UNKNOWN, false, clock(w.now), &d);
	person(w, verb, d, NOBODY);
	/* After adoption nothing here shows what the lost time line did. Where no
	 * lookup asks the provider, the person does. */
	if (!w.now.adopted || s.recipe || !any_living(w))
	{
		say("person: once more, as a new generation");
		verb = opl_reissue(&op, &here, s.first, NOW + w.now.not_before * TICK, clock(w.now), &d);
		person(w, verb, d, NOBODY);
	}
	people_wait(w);
}

/* The provider is released, and callers ask again. */
void
Actors::people_wait(const World &w)
{
	World next = w;

	if (w.paused)
	{
		next.paused = 0;
		say("person: the provider may be called again");
		emit(next, REST);
	}
	OplOperation op = operation(w.now);
	OplPromises  here = promises(w.place);
	OplMoment    due = w.now.step == OPL_STEP_NONE ? OPL_NEVER : NOW + w.now.due * TICK;
	OplDecision  d;

	next = w;
	if (opl_nudge(&op, &here, OPL_NEVER, due, clock(w.now), &d))
	{
		say("somebody submits it again: look sooner");
		follow(&next, d, NOBODY, false);
		emit(next, REST);
	}
	if (opl_recheck(&op, &here, NOW, &d) == OPL_VERB_OK && w.now.step == OPL_STEP_NONE)
	{
		say("person: asks for a lookup");
		person(w, OPL_VERB_OK, d, NOBODY);
	}
}

/* The provider's row names another account, or the first again. A time line that
 * goes on after a backup does not: where it sent nobody could know. */
void
Actors::move(const World &w)
{
	World next = w;

	if (w.backup == 1)
		return;
	next.place ^= 1;
	say("person: the provider's row names account %c", 'a' + next.place);
	emit(next, REST);
}

/* The workers of a lost time line: what they claimed may still leave. */
void
Actors::lose_workers(World *w) const
{
	for (Slot &slot : w->slot)
	{
		if (slot.phase != CLAIMED)
			slot = Slot();
		slot.orphan = slot.phase == CLAIMED;
		slot.current = 0;
	}
	for (Request &r : w->request)
		r.owner = r.phase == GONE ? 0 : NOBODY;
}

void
Actors::take_over(const World &w)
{
	World next = w;

	if (s.backup && w.backup == 0)
	{
		next.backup = 1;
		next.copy = w.now;
		next.copy_place = w.place;
		say("a backup is taken");
		emit(next, REST);
	}
	if (w.backup == 1 || s.failover)
	{
		next = w;
		if (w.backup == 1)
		{
			next.now = w.copy;
			next.place = w.copy_place;
			next.backup = 2;
			next.exempt = next.now.state == OPL_FAILED;
		}
		lose_workers(&next);

		OplOperation op = operation(next.now);
		OplPromises  here = promises(next.place);
		OplDecision  d = opl_adopt(&op, &here, moment(next.now, next.now.created, false),
		                           s.failover != 0, clock(next.now));

		say(s.failover ? "the standby takes over"
		               : "the backup takes over and is adopted");
		follow(&next, d, NOBODY, true);
		emit(next, REST);
	}
}

/* ------------------------------------------------------------------- steps */

void
Actors::steps(const World &w, std::vector<Step> *to, std::vector<std::string> *words)
{
	out = to;
	stories = words;
	bad = nullptr;
	tick(w);
	claim(w);
	put_off(w);
	condemn(w);
	for (int i = 0; i < SLOTS; i++)
		worker(w, i);
	for (int i = 0; i < REQUESTS; i++)
	{
		if (w.request[i].phase == WIRE)
			arrive(w, i);
		else if (w.request[i].phase == WORK)
			at_work(w, i);
	}
	objects(w);
	beforehand(w);
	if (s.hooks)
		webhooks(w);
	if (s.people)
		people(w);
	if (s.moves)
		move(w);
	take_over(w);
	if (s.steps)
		set_clock(w);
}
