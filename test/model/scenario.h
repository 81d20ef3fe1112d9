/*
 * scenario.h - one point of the grid: what the provider promises, what it does,
 * and who acts. Read from a line "name key=value key=value ...".
 */
#ifndef MODEL_SCENARIO_H
#define MODEL_SCENARIO_H

#include <string>

extern "C" {
#include "rules/decide.h"
}

/* field, default, meaning */
#define SCENARIO_FIELDS(X)                                                     \
	/* promises, in ticks */                                                   \
	X(ttl, -1, "the key is remembered; -1: until just past quiet")             \
	X(stores, 3, "0 nothing, 1 success, 2 state, 3 all")                       \
	X(guards, -1, "-1: follows from stores")                                   \
	X(margin, 1, "claim to send; a client's lease")                            \
	X(timeout, 1, "we wait for an answer")                                     \
	X(flight, 1, "departure to effect")                                        \
	X(lag, 0, "effect to visibility in a lookup")                              \
	X(recipe, 1, "there is a lookup")                                          \
	X(attempts, 2, "tries")                                                    \
	X(patience, -1, "tries, in time; -1: until just past quiet")                                           \
	X(give_up, -1, "lookups, in time; -1: just past quiet")                    \
	X(retry, 1, "Retry-After of a 429; it may lie in the past")                \
	X(grows, 0, "back-off: a tick, four, the most; else always a tick")        \
	/* what the provider is like */                                            \
	X(key, 1, "it knows keys at all")                                          \
	X(lock, 1, "locked while in progress")                                     \
	X(keeps, -1, "-1: as `stores` promises")                                   \
	X(marked, 1, "replays are marked")                                         \
	X(declared, 0, "a rule tells refusals from behind the key; 2: some")       \
	X(clean, 0, "an error leaves no effect")                                   \
	X(refuses, 1, "4xx before it looks at the key")                            \
	X(declines, 1, "4xx from behind the key")                                  \
	X(busy, 1, "429")                                                          \
	X(auth, 0, "401")                                                          \
	X(already, 0, "already done")                                              \
	X(mismatch, 0, "other parameters")                                         \
	X(errors, 1, "500 from behind the key")                                    \
	X(dies, 1, "dies at work, the key stays in progress")                      \
	X(pends, 0, "objects are pending at first")                                \
	X(fails, 0, "a pending object may fail")                                   \
	X(fails_now, 0, "answered 2xx with a failed object")                       \
	X(reverses, 0, "a done object may fail")                                   \
	X(archives, 0, "an object once seen may vanish from lookups")              \
	X(anonymous, 0, "objects have no id we can read")                          \
	X(unmarked, 0, "objects carry no marker we can read; no answer is lost")   \
	X(hooks, 0, "webhooks")                                                    \
	X(there, 0, "somebody may have done it before we first ask or send")       \
	/* who else acts */                                                        \
	X(people, 1, "they cancel, resolve, resume")                               \
	X(reissue, 0, "and reissue")                                               \
	X(held, 0, "born held")                                                    \
	X(first, 0, "a lookup before the first send")                              \
	X(not_after, 31, "ticks until no send may begin; 31: never")               \
	X(not_before, 0, "ticks until the first send may begin")                   \
	X(crashes, 1, "workers die")                                               \
	X(client, 0, "a client sends, with a lease of `margin`")                   \
	X(poison, 0, "the worker may fail on the operation")                       \
	X(holds, 0, "a session may hold the row, so that an answer waits")         \
	X(backup, 0, "a backup takes over once")                                   \
	X(failover, 0, "a synchronous standby takes over")                         \
	X(steps, 0, "the clock is set once; 1 forward, 2 back; restarted: 4, 8")   \
	X(size, 1000, "by so many ticks")                                          \
	X(moves, 0, "the provider's row names another account, and back")          \
	/* promises broken on purpose */                                           \
	X(late_effect, 0, "takes effect later than flight")                        \
	X(forgets, 0, "forgets the key early")                                     \
	X(drops, 0, "does not keep an error it says it keeps")                     \
	X(lies, 0, "answers 4xx after an effect")                                  \
	X(busy_lies, 0, "answers 429 after an effect")                             \
	X(auth_lies, 0, "answers 401 after an effect")                             \
	X(mismarks, 0, "marks as replay what is none")                             \
	X(revives, 0, "a failed object becomes done")                              \
	X(stale, 0, "a strong lookup that lags")                                   \
	X(doubles, 0, "something on the way doubles a request")                    \
	X(late_send, 0, "a worker sends later than margin")                        \
	X(person_lies, 0, "a person says failed although it happened")             \
	/* the search */                                                           \
	X(live, 1, "look for circles, too")                                        \
	X(lemma, 0, "not a graph: the lemma of this number")                       \
	X(limit, 60, "million states")                                             \
	X(story, 0, "1: a violation is what we want")

struct Scenario
{
	std::string name;
#define X(field, value, meaning) int field = value;
	SCENARIO_FIELDS(X)
#undef X
};

extern bool scenario_parse(const std::string &line, Scenario *s);
extern OplPromises promises_of(const Scenario &s);

/* One tick; decide.c's own constants stay what they are (5 s, 10 min). */
static const OplMoment TICK = OPL_MINUTE;

#endif
