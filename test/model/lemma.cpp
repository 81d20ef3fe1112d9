#include "lemma.h"

namespace
{

const OplMoment NOW = 1000 * OPL_MINUTE;
const OplClock  STEADY = {NOW, OPL_NEVER, OPL_NEVER, 0};

/* Calls `visit` with every operation and every kind of promise; times are the
 * least and the most that a rule can tell apart. */
template <class F>
void
every_operation(F visit)
{
	const OplMoment moments[] = {OPL_NEVER, NOW - 100 * OPL_MINUTE, NOW};

	for (unsigned n = 0; n < 9u * 4 * 8 * 3 * 3 * 3 * 8 * 4; n++)
	{
		unsigned     k = n;
		OplOperation op = {};
		OplPromises  p = {};
		auto         take = [&k](unsigned choices)
		{
			unsigned digit = k % choices;

			k /= choices;
			return digit;
		};

		op.state = (OplState) take(OPL_STATE_COUNT);
		op.sealed = (OplSeal) take(OPL_SEAL_COUNT);
		op.tainted = take(2);
		op.contradiction = take(2);
		op.adopted = take(2);
		op.generation = 1;
		op.attempts = 1;
		op.tries = take(3);
		op.first_sent_at = op.trying_since = moments[take(3)];
		op.last_sent_at = moments[take(3)];
		op.not_after = OPL_NEVER;
		p.recipe = take(2);
		p.guards = take(2);
		p.ttl = take(2) ? 200 * OPL_MINUTE : 0;
		p.stores = (OplStores) take(OPL_STORES_COUNT);
		p.margin = p.timeout = p.flight = OPL_MINUTE;
		p.attempts = 3;
		p.patience = 500 * OPL_MINUTE;
		p.give_up = 50 * OPL_MINUTE;
		p.initial = p.max = OPL_MINUTE;
		p.base = 1;
		visit(op, p);
	}
}

bool
shows_no_object(int verdict)
{
	return verdict != OPL_V_CONFIRMED && verdict != OPL_V_ACCEPTED &&
		verdict != OPL_V_FOUND && verdict != OPL_V_FOUND_PENDING &&
		verdict != OPL_V_FOUND_FAILED;
}

void
late_says_nothing(Outcome *result)
{
	every_operation([result](const OplOperation &op, const OplPromises &p)
	{
		for (int v = 0; v < OPL_VERDICT_COUNT * 2; v++)
		{
			OplFinding f = {};

			f.verdict = (OplVerdict) (v / 2);
			f.kind = v % 2 ? OPL_KIND_LATE : OPL_KIND_DOOR;
			f.keyed = true;
			f.started_at = NOW;
			f.retry_at = OPL_NEVER;
			f.same_generation = true;
			if (!shows_no_object(f.verdict))
				continue;

			OplDecision d = opl_decide(&op, &p, &f, STEADY);

			result->states++;
			if (d.moved || d.take_object || d.note_failed || d.pause)
				result->bad = "late evidence without an object moved something";
		}
	});
}

void
no_send_before_its_time(Outcome *result)
{
	every_operation([result](const OplOperation &op, const OplPromises &p)
	{
		const OplMoment earlier = NOW - 150 * OPL_MINUTE;
		const OplClock  behind = {earlier, earlier, OPL_NEVER, 0};
		OplDecision     d;

		if (!op.tainted || op.last_sent_at == OPL_NEVER ||
		    op.first_sent_at == OPL_NEVER || op.state == OPL_SUBMITTED)
			return;
		result->states++;
		if (opl_claim(&op, &p, OPL_STEP_SEND, behind, &d) == OPL_CLAIM_SEND &&
		    op.state != OPL_PENDING)
			result->bad = "sent again by a clock that went backwards";
	});
}

/* Whatever is said there: what may have taken effect neither fails nor is sent. */
void
another_place_proves_nothing(Outcome *result)
{
	every_operation([result](OplOperation op, OplPromises p)
	{
		OplDecision d;

		bool sent = op.state == OPL_SUBMITTED;

		if (!op.tainted || (!sent && op.state != OPL_UNKNOWN &&
		                    op.state != OPL_ACCEPTED && op.state != OPL_REVIEW))
			return;
		op.place = 1;
		p.place = 2;
		for (int v = 0; v < OPL_VERDICT_COUNT * 2; v++)
		{
			OplFinding f = {};

			f.verdict = (OplVerdict) (v / 2);
			f.kind = v % 2 ? OPL_KIND_DOOR : sent ? OPL_KIND_SEND : OPL_KIND_LOOKUP;
			f.keyed = true;
			f.started_at = NOW;
			f.retry_at = OPL_NEVER;
			f.same_generation = true;
			d = opl_decide(&op, &p, &f, STEADY);
			result->states++;
			if (d.after.state == OPL_FAILED)
				result->bad = "failed by what another place says";
			if (d.after.sealed != op.sealed && d.after.sealed != OPL_SEAL_SEEN &&
			    f.verdict != OPL_V_FOUND_FAILED)
				result->bad = "sealed by what another place says";
		}
		if (opl_claim(&op, &p, OPL_STEP_SEND, STEADY, &d) == OPL_CLAIM_SEND)
			result->bad = "sent again to another place";
		if (op.state != OPL_UNKNOWN)
			return;
		/* A lost time line may have reissued it to the present place. */
		op = opl_adopt(&op, &p, NOW, false, STEADY).after;
		p.place = 1;
		if (!opl_elsewhere(&op, &p))
			result->bad = "its place came back after an adoption";
	});
}

/* What may be ours, with a marker that cannot be read, keeps it from being sent
 * again under a key that does not guard, and from being called failed. */
void
unmarked_is_no_proof(Outcome *result)
{
	every_operation([result](const OplOperation &op, const OplPromises &p)
	{
		OplFinding f = {};

		f.started_at = NOW;
		f.retry_at = OPL_NEVER;
		f.same_generation = f.unmarked = true;
		result->states++;
		if (op.state == OPL_SUBMITTED)
		{
			f.verdict = OPL_V_UNKNOWN;
			f.kind = OPL_KIND_SEND;
			OplDecision d = opl_decide(&op, &p, &f, STEADY);

			if (!op.contradiction &&
			    (d.after.sealed == OPL_SEAL_NONE || d.step == OPL_STEP_SEND))
				result->bad = "a 2xx without our marker is no evidence of an effect";
		}
		else if (op.state == OPL_UNKNOWN || op.state == OPL_ACCEPTED ||
		         op.state == OPL_REVIEW)
		{
			f.verdict = OPL_V_ABSENT;
			f.kind = OPL_KIND_LOOKUP;
			OplDecision d = opl_decide(&op, &p, &f, STEADY);

			if (d.after.state == OPL_FAILED ||
			    (d.step == OPL_STEP_SEND && (!p.guards || op.adopted)))
				result->bad = "absence among things without a marker is proof";
		}
	});
}

} // namespace

Outcome
lemma(int which)
{
	Outcome result;

	if (which == 1)
		late_says_nothing(&result);
	else if (which == 2)
		no_send_before_its_time(&result);
	else if (which == 3)
		another_place_proves_nothing(&result);
	else
		unmarked_is_no_proof(&result);
	return result;
}
