/*
 * pace.h - what may go on the wire now, per provider.
 *
 * Rate and breaker will answer here too: a place is free when all agree.
 */
#ifndef OPL_PACE_H
#define OPL_PACE_H

#include "postgres.h"

#include "rules/decide.h"

/* Which worker of how many this is: they share every provider's places. */
extern void pace_share(int my_number, int of_workers);

/* What the configuration says now. */
extern void pace_provider(const char *name, int concurrency, bool paused);

/* Free places, and `given_back` more. Lookups have places of their own, so that
 * neither starves the other. */
extern int pace_free(const char *name, OplStep step, int given_back);

extern void pace_take(const char *name, OplStep step);
extern void pace_give(const char *name, OplStep step);

/* The provider asked us to come back later: none of these until then, by the steady
 * clock. */
extern void pace_hold(const char *name, OplStep step, int64 until);

/* May its refusals be told now? At most once a minute. */
extern bool pace_complains(const char *name);

#endif
