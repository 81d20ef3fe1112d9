/*
 * state.h - the states of an operation and the arrows between them.
 *
 * Plain C: no PostgreSQL header, no allocation, no clock. The model checker in
 * test/model links this file as it ships.
 */
#ifndef OPL_STATE_H
#define OPL_STATE_H

#include <stdbool.h>

/* What the rules rely upon, checked in every step of the search: it asks only what can
 * be asked, which whoever calls _op_decide() need not. */
#ifdef OPL_CHECKED
#include <assert.h>
#define OPL_ASSERT(rule) assert(rule)
#else
#define OPL_ASSERT(rule) ((void) 0)
#endif

/* One list gives the enum, the names, and what each state means outside. */
#define OPL_STATES(X)                                           \
	/* state     effect  next_action                         */ \
	X(HELD, "held", "none", "wait")                             \
	X(PENDING, "pending", "none", "wait")                       \
	X(SUBMITTED, "submitted", "maybe", "wait")                  \
	X(UNKNOWN, "unknown", "maybe", "wait")                      \
	X(ACCEPTED, "accepted", "maybe", "wait")                    \
	X(REVIEW, "review", "maybe", "ask_human")                   \
	X(CONFIRMED, "confirmed", "done", "use_result")             \
	X(FAILED, "failed", "none", "stop")                         \
	X(CANCELLED, "cancelled", "none", "stop")

typedef enum OplState
{
#define X(id, name, effect, next) OPL_##id,
	OPL_STATES(X)
#undef X
		OPL_STATE_COUNT
} OplState;

extern const char *opl_state_name(OplState state);
extern bool        opl_state_parse(const char *name, OplState *state);

/* "none", "maybe" or "done": what the outside world may have seen. */
extern const char *opl_state_effect(OplState state);

/* What a caller does next; a rejected request is a "fix_request". */
extern const char *opl_state_next_action(OplState state, bool rejected);

/* confirmed, failed, cancelled: no machine moves it any more. */
extern bool opl_state_ended(OplState state);

/* Is the arrow legal? Staying is no arrow and always is. */
extern bool opl_state_may_become(OplState from, OplState to);

/* Does entering the state mean that an effect can no longer be excluded? */
extern bool opl_state_taints(OplState state);

#endif
