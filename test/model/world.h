/*
 * world.h - everything that exists in the model, and how it is packed.
 *
 * One operation, its row in the ledger, two workers, the wire, and a provider.
 * Whatever the ledger decides is asked of src/rules/decide.c and src/rules/state.c, the very
 * files that ship. Time is counted in ticks and kept as ages, which saturate
 * where no rule can tell them apart any more, so that the graph is finite.
 */
#ifndef MODEL_WORLD_H
#define MODEL_WORLD_H

#include <cstdint>
#include <cstring>

extern "C" {
#include "rules/decide.h"
}

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;

enum
{
	UNSET,
	FORWARD,
	BACK
};

enum
{
	OLD_TRYING = 1,
	OLD_FIRST = 2,
	OLD_LAST = 4
};

enum
{
	SLOTS = 2,
	REQUESTS = 4,
	KEYS = 3,
	PLACES = 2,
	OBJECTS = 3,
	NOBODY = 3, /* no owner, no object */
	LONG = 31   /* an age or a delay that does not exist */
};

/* A row of op_operation and its row of op_due. */
struct Ledger
{
	u8 state, step, sealed, tainted, contradiction, adopted;
	u8 gen; /* index: 0 is generation 1, 1 is 2, 2 is 1001 */
	u8 tries, attempts;
	u8 trying, first, last, created; /* ages */
	u8 due, not_after;               /* still to go */
	u8 external, failed_ids;
	u8 condemned;  /* ghost: the worker failed on it, a person has it */
	u8 not_before; /* still to go */
	u8 step_of_clock;  /* the wall clock was set: not, FORWARD, BACK */
	u8 step_is_known;  /* somebody saw it happen, and how far */
	u8 since;          /* age: the clock is steady; LONG: always was */
	u8 old;            /* moments from before the step: OLD_... */
	u8 shown;      /* ghost: objects that evidence showed as failed */
	u8 told; /* ghost: generations known to answer with a stored error */
	u8 place; /* where it was sent; PLACES: nowhere, one more: anywhere */
};

/* A worker, seen from this operation. */
enum Phase
{
	IDLE,
	CLAIMED,  /* marked and committed, nothing sent */
	WAITING,  /* the request is on the wire */
	ANSWERED, /* evidence in memory, not settled */
	LOOKING,  /* a lookup claimed, not made */
	LOOKED    /* its evidence in memory */
};

struct Slot
{
	u8 phase;
	u8 age;     /* since the claim; of a lookup: from last send to its start */
	u8 current; /* no later claim fenced it */
	u8 orphan;  /* its ledger was lost */
	u8 state;   /* of the operation at the claim */
	u8 gen;
	u8 verdict, object, flag; /* flag: keyed, or Retry-After */
	u8 old;     /* a lookup: begun before the clock was set */
	u8 place;                 /* as it was at the claim */
};

enum RequestPhase
{
	GONE,
	WIRE,
	WORK /* the provider took its key and works */
};

struct Request
{
	u8 phase, age, gen, owner, place;
};

enum KeyStatus
{
	FREE,
	STUCK, /* in progress for ever: its process died */
	KEPT_OBJECT,
	KEPT_ERROR,
	KEPT_REFUSAL
};

struct Key
{
	u8 status, object, age, kept; /* kept: verdict of the stored answer */
};

enum Kept
{
	AS_DONE,
	AS_PENDING,
	AS_FAILED
};

struct Object
{
	u8 exists, gen;
	u8 was_pending, was_done, failed;
	u8 archived, seen;
	u8 made, changed; /* ages, as far as a lookup can lag */
	u8 place;
};

struct World
{
	Ledger  now;
	Slot    slot[SLOTS];
	Request request[REQUESTS];
	Key     key[PLACES][KEYS]; /* accounts know nothing of each other */
	Object  object[OBJECTS];
	u8      paused;
	u8      sent;   /* ghost: a request left, in any time line */
	u8      exempt; /* ghost: adopted as failed, reported as of then */
	u8      backup; /* none, taken, used */
	u8      broken; /* a promise was broken, once */
	u8      moves;  /* there is a second place; nothing else is stored of it */
	u8      place;  /* that the provider's row names now */
	Ledger  copy;
	u8      copy_place;
};

static inline bool
living(const Object &o)
{
	return o.exists && !o.failed;
}

enum
{
	MAX_WORDS = 6
};

struct Packed
{
	u64 word[MAX_WORDS];
};

/* Visits every field with its width; packing and unpacking share the order.
 * Unrolled, so that every position is a constant: this is where the time goes. */
template <class W, class F>
static inline __attribute__((always_inline)) void
ledger_fields(W &l, F &f)
{
	f(l.state, 4), f(l.step, 2), f(l.sealed, 2), f(l.tainted, 1);
	f(l.contradiction, 1), f(l.adopted, 1), f(l.gen, 2), f(l.tries, 3);
	f(l.attempts, 2), f(l.trying, 5), f(l.first, 5), f(l.last, 5);
	f(l.created, 5), f(l.due, 5), f(l.not_after, 5), f(l.external, 2);
	f(l.failed_ids, 3), f(l.told, 3), f(l.condemned, 1), f(l.not_before, 2);
	f(l.step_of_clock, 2), f(l.step_is_known, 1), f(l.since, 5), f(l.old, 3);
	f(l.shown, 3);
}

template <class W, class F>
static inline __attribute__((always_inline)) void
key_fields(W &keys, F &f)
{
#pragma GCC unroll 4
	for (auto &k : keys)
		f(k.status, 3), f(k.object, 2), f(k.age, 5), f(k.kept, 2);
}

/* What tells the places apart. */
template <class W, class F>
static inline __attribute__((always_inline)) void
place_fields(W &w, F &f)
{
	f(w.place, 1), f(w.now.place, 2);
#pragma GCC unroll 4
	for (auto &s : w.slot)
		f(s.place, 1);
#pragma GCC unroll 4
	for (auto &r : w.request)
		f(r.place, 1);
#pragma GCC unroll 4
	for (auto &o : w.object)
		f(o.place, 1);
	key_fields(w.key[1], f);
	if (w.backup == 1)
		f(w.copy_place, 1), f(w.copy.place, 2);
}

template <class W, class F>
static inline __attribute__((always_inline)) void
world_fields(W &w, F &f)
{
	ledger_fields(w.now, f);
#pragma GCC unroll 4
	for (auto &s : w.slot)
	{
		f(s.phase, 3), f(s.age, 5), f(s.current, 1), f(s.orphan, 1);
		f(s.state, 4), f(s.gen, 2), f(s.verdict, 5), f(s.object, 2);
		f(s.flag, 1), f(s.old, 1);
	}
#pragma GCC unroll 4
	for (auto &r : w.request)
		f(r.phase, 2), f(r.age, 4), f(r.gen, 2), f(r.owner, 2);
	key_fields(w.key[0], f);
#pragma GCC unroll 4
	for (auto &o : w.object)
	{
		f(o.exists, 1), f(o.gen, 2), f(o.was_pending, 1), f(o.was_done, 1);
		f(o.failed, 1), f(o.archived, 1), f(o.seen, 1), f(o.made, 3);
		f(o.changed, 3);
	}
	f(w.paused, 1), f(w.sent, 1), f(w.exempt, 1), f(w.backup, 2);
	f(w.broken, 1), f(w.moves, 1);
	if (w.backup == 1)
		ledger_fields(w.copy, f);
	if (w.moves)
		place_fields(w, f);
}

extern Packed pack(const World &w);
extern World unpack(const Packed &p);

#endif
