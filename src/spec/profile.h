/*
 * profile.h - a provider's behaviour as data: merge, check, parse.
 */
#ifndef OPL_PROFILE_H
#define OPL_PROFILE_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "spec/spec.h"

/* a, over it b: objects key by key, all else replaced. */
extern Jsonb *profile_merge(Jsonb *a, Jsonb *b);

/* Parse and check a merged spec, in the current memory context. Raises OL003
 * with the path of what is wrong and the nearest known name. `name` is the
 * action's, for messages. */
extern Spec *profile_parse(const char *name, Jsonb *merged);

/* What a spec that is accepted costs its user ("never resent by machine: …"),
 * as a List of char *: to be raised as NOTICEs when it is added. */
extern List *profile_notices(const Spec *spec);

/* Check a provider's own part, or a profile's: names and types, not wholeness.
 * `what` is for messages, like: spec of provider "stripe". */
extern void profile_check_part(const char *what, Jsonb *part, bool provider_level);

#endif
