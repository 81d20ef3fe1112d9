/*
 * pace.c - free places per provider.
 */
#include "postgres.h"

#include "worker/pace.h"

#include "base/clock.h"
#include "utils/hsearch.h"

#define NAME_SIZE 64

/* All providers together: file descriptors, and curl's caches, have an end. */
#define TOTAL_MAX 512

typedef struct Pace
{
	char  name[NAME_SIZE];
	int   concurrency;
	bool  paused;
	int   sending;
	int   looking;
	int64 held_until;         /* sends; by the steady clock, as all here */
	int64 lookups_held_until; /* lookups */
	int64 complained_at;      /* 0: never */
} Pace;

static HTAB *paces = NULL;
static int   total = 0;
static int   number = 0;  /* of this worker */
static int   workers = 1; /* of this database */

static Pace *
pace_of(const char *name)
{
	HASHCTL how = {.keysize = NAME_SIZE, .entrysize = sizeof(Pace)};
	bool    found;
	Pace   *pace;

	if (!paces)
		paces = hash_create("op_ledger pace", 32, &how, HASH_ELEM | HASH_STRINGS);
	pace = hash_search(paces, name, HASH_ENTER, &found);
	if (!found)
		memset((char *) pace + NAME_SIZE, 0, sizeof(Pace) - NAME_SIZE);
	return pace;
}

/* Our part of what all workers of the database may do together. */
static int
share_of(int places)
{
	return places / workers + (number < places % workers ? 1 : 0);
}

void
pace_share(int my_number, int of_workers)
{
	number = my_number;
	workers = of_workers;
}

void
pace_provider(const char *name, int concurrency, bool paused)
{
	Pace *pace = pace_of(name);

	pace->concurrency = Max(concurrency, 1);
	pace->paused = paused;
}

/* A paused provider is still asked what became of things, but slowly. */
static int
lookup_places(const Pace *pace)
{
	return share_of(pace->paused ? 1 : Max(1, pace->concurrency / 4));
}

static int
send_places(const Pace *pace)
{
	return pace->paused ? 0 : share_of(pace->concurrency);
}

static int64 *
hold_of(Pace *pace, OplStep step)
{
	return step == OPL_STEP_LOOKUP ? &pace->lookups_held_until : &pace->held_until;
}

int
pace_free(const char *name, OplStep step, int given_back)
{
	Pace *pace = pace_of(name);
	bool  lookup = step == OPL_STEP_LOOKUP;
	int   places = lookup ? lookup_places(pace) : send_places(pace);
	int   taken = lookup ? pace->looking : pace->sending;
	int   left = TOTAL_MAX - total + given_back;

	if (clock_steady() < *hold_of(pace, step))
		return 0;
	return Max(0, Min(places - taken + given_back, left));
}

static int *
counter(Pace *pace, OplStep step)
{
	return step == OPL_STEP_LOOKUP ? &pace->looking : &pace->sending;
}

void
pace_take(const char *name, OplStep step)
{
	(*counter(pace_of(name), step))++;
	total++;
}

void
pace_give(const char *name, OplStep step)
{
	(*counter(pace_of(name), step))--;
	total--;
}

void
pace_hold(const char *name, OplStep step, int64 until)
{
	int64 *hold = hold_of(pace_of(name), step);

	*hold = Max(*hold, until);
}

bool
pace_complains(const char *name)
{
	Pace *pace = pace_of(name);
	int64 now = clock_steady();

	if (pace->complained_at != 0 && now < pace->complained_at + OPL_MINUTE)
		return false;
	pace->complained_at = now;
	return true;
}
