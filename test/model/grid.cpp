/*
 * grid.cpp - what is searched.
 *
 * The full grid crosses key store, lookup, flight and what else happens. The
 * short one is the part of it that runs with every test. The assumptions break
 * one promise each and must end in a story.
 */
#include "grid.h"

#include <cstdio>
#include <cstring>
#include <string>

namespace
{

struct Part
{
	const char *name;
	const char *fields;
};

const Part stores[] = {
	{"all", "stores=3 marked=1"},
	{"all-unmarked", "stores=3 marked=0"},
	{"all-declared", "stores=3 marked=0 declared=1"},
	{"all-unlocked", "stores=3 lock=0 guards=0"},
	{"state", "stores=2 marked=0"},
	{"success", "stores=1 marked=0"},
	{"success-clean", "stores=1 marked=0 guards=1 clean=1"},
	{"success-told", "stores=1 marked=0 guards=1 clean=1 declared=1"},
	{"nothing", "stores=0 marked=0"},
	{"short-ttl", "stores=3 ttl=4"},
	{"no-key", "stores=0 marked=0 ttl=0 key=0"},
};

const Part lookups[] = {
	{"blind", "recipe=0"},
	{"strong", "recipe=1"},
	{"eventual", "recipe=1 lag=1"},
};

/* The second: it may arrive after we stopped waiting. */
const Part flights[] = {
	{"near", "flight=1 timeout=2"},
	{"far", "flight=2 timeout=1"},
};

const Part happenings[] = {
	{"wire", ""},
	{"reissued", "reissue=1 busy=0 refuses=0 dies=0"},
	{"accepted", "pends=1 hooks=1 busy=0 refuses=0"},
	{"reversed", "reverses=1 hooks=1 busy=0 refuses=0 dies=0"},
	{"failed-later", "pends=1 fails=1 hooks=1 busy=0 refuses=0 dies=0"},
	{"held", "held=1 not_after=3"},
	{"client", "margin=2 busy=0"},
	{"restored", "backup=1 attempts=1 busy=0 refuses=0 dies=0"},
};

/* Beside the cross: what makes a difference for few stores only. */
const Part beside[] = {
	{"archived", "pends=1 hooks=1 archives=1 busy=0 refuses=0 dies=0"},
	{"unauthorized", "auth=1"},
	{"already-done", "already=1 mismatch=1"},
	{"failed-at-once", "fails_now=1"},
	{"asked-first", "first=1"},
	{"standby", "failover=1 busy=0"},
	{"come-back-late", "retry=8"},
	{"three-tries", "attempts=3 people=0 busy=0 refuses=0"},
};

/* Later fields win. */
void
line(const Part &store, const Part &lookup, const Part &flight, const Part &what,
     const char *more)
{
	printf("%s/%s/%s/%s %s %s %s %s%s\n", store.name, lookup.name, flight.name,
	       what.name, lookup.fields, flight.fields, what.fields, store.fields,
	       more);
}

void
cross(const Part &what)
{
	for (const Part &store : stores)
		for (const Part &lookup : lookups)
			for (const Part &flight : flights)
				line(store, lookup, flight, what, "");
}

void
full()
{
	for (const Part &what : happenings)
		cross(what);
	for (const Part &what : beside)
	{
		for (int store : {0, 1, 4, 5, 10})
			for (const Part &lookup : lookups)
				line(stores[store], lookup, flights[1], what, "");
	}
}

} // namespace

int
grid_print(const char *name)
{
	if (strcmp(name, "full") == 0)
		full();
	else
		return 2;
	return 0;
}
