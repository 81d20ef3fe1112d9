/*
 * adopt.h - a copy of the ledger takes over.
 */
#ifndef OPL_ADOPT_H
#define OPL_ADOPT_H

#include "postgres.h"

#include "store/ledger.h"

/* How many operations, by what follows for them. */
typedef struct Adoption
{
	int64 lookups; /* looked up before anything is sent */
	int64 sends;   /* sent again under a key that guards, where nothing can be asked */
	int64 reviews; /* wait for a person */
	int64 failed;  /* as they were; may be reissued when quiet */
} Adoption;

/* Make this place the home, and the agenda anew. `guarded`: keys still guard (a
 * fail-over). One transaction, the caller's. */
extern Adoption adopt(const Ledger *ledger, Oid extension, bool guarded,
					  const char *actor, const char *note);

#endif
