/*
 * state.c - the one table of legal arrows.
 *
 *	  held ------> pending ------> submitted -----> confirmed | failed
 *	                  ^   proof        |
 *	                  +--of no effect--+--> unknown | accepted | review
 *
 * The guard trigger (session/guard.c) refuses every UPDATE that is not an arrow here, and
 * op_transitions() lists the table. Plain C; see state.h.
 */
#include "rules/state.h"

#include <string.h>

#define BIT(id) (1u << OPL_##id)

/* Evidence is never refused: every state may go to review. */
static const unsigned arrows[OPL_STATE_COUNT] = {
	[OPL_HELD] = BIT(PENDING) | BIT(CANCELLED) | BIT(REVIEW),
	[OPL_PENDING] = BIT(SUBMITTED) | BIT(FAILED) | BIT(CANCELLED) | BIT(CONFIRMED) |
					BIT(ACCEPTED) | BIT(UNKNOWN) | BIT(REVIEW),
	[OPL_SUBMITTED] = BIT(PENDING) | BIT(UNKNOWN) | BIT(ACCEPTED) | BIT(CONFIRMED) |
					  BIT(FAILED) | BIT(REVIEW),
	[OPL_UNKNOWN] =
		BIT(SUBMITTED) | BIT(ACCEPTED) | BIT(CONFIRMED) | BIT(FAILED) | BIT(REVIEW),
	[OPL_ACCEPTED] = BIT(CONFIRMED) | BIT(FAILED) | BIT(UNKNOWN) | BIT(REVIEW),
	[OPL_REVIEW] = BIT(CONFIRMED) | BIT(FAILED) | BIT(ACCEPTED) | BIT(UNKNOWN),
	[OPL_CONFIRMED] = BIT(REVIEW),
	[OPL_FAILED] = BIT(PENDING) | BIT(REVIEW),
	[OPL_CANCELLED] = BIT(REVIEW),
};

static const struct
{
	const char *name;
	const char *effect;
	const char *next_action;
} words[OPL_STATE_COUNT] = {
#define X(id, name, effect, next) [OPL_##id] = {name, effect, next},
	OPL_STATES(X)
#undef X
};

const char *
opl_state_name(OplState state)
{
	return words[state].name;
}

bool
opl_state_parse(const char *name, OplState *state)
{
	for (int i = 0; i < OPL_STATE_COUNT; i++)
	{
		if (strcmp(words[i].name, name) == 0)
		{
			*state = (OplState) i;
			return true;
		}
	}
	return false;
}

const char *
opl_state_effect(OplState state)
{
	return words[state].effect;
}

const char *
opl_state_next_action(OplState state, bool rejected)
{
	if (state == OPL_FAILED && rejected)
		return "fix_request";
	return words[state].next_action;
}

bool
opl_state_ended(OplState state)
{
	return state == OPL_CONFIRMED || state == OPL_FAILED || state == OPL_CANCELLED;
}

bool
opl_state_may_become(OplState from, OplState to)
{
	return from == to || (arrows[from] & (1u << to)) != 0;
}

bool
opl_state_taints(OplState state)
{
	return state == OPL_UNKNOWN || state == OPL_ACCEPTED || state == OPL_REVIEW;
}
