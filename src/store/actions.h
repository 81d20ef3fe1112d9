/*
 * actions.h - an action's name -> its parsed spec, kept while its version stands.
 */
#ifndef OPL_ACTIONS_H
#define OPL_ACTIONS_H

#include "postgres.h"

#include "spec/profile.h"
#include "store/ledger.h"

typedef struct Action
{
	char         *name;
	char         *provider;
	int64         version; /* of action, provider and profile together: a digest */
	Spec         *spec;
	MemoryContext context;
	int           holders; /* exchanges that keep what they were sent with */
	bool          current;
	bool          paused; /* its provider, when it was last asked for */
} Action;

/* NULL: there is no such action. Raises OL003 when its spec is wrong. */
extern Action *action_find(const Ledger *ledger, const char *name);

/* As action_find(), but raises OL005 with the nearest name. */
extern Action *action_get(const Ledger *ledger, const char *name);

extern void action_hold(Action *action);
extern void action_release(Action *action);

#endif
