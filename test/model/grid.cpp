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
#include <initializer_list>
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
	{"reissued", "reissue=1 attempts=1 busy=0 refuses=0"},
	{"accepted", "pends=1 hooks=1 people=0 busy=0 refuses=0 errors=0"},
	{"reversed", "reverses=1 hooks=1 people=0 busy=0 refuses=0 dies=0"},
	{"failed-later", "pends=1 fails=1 hooks=1 people=0 busy=0 refuses=0 dies=0 "
	                 "errors=0"},
	{"held", "held=1 not_after=3"},
	{"client", "client=1 margin=2 busy=0"},
	{"restored", "backup=1 attempts=1 busy=0 refuses=0 dies=0"},
};

/* Beside the cross: what makes a difference for few stores only. */
const Part beside[] = {
	{"clock-set", "steps=15 busy=0 refuses=0 dies=0"},
	{"people-reversed", "reverses=1 hooks=1 busy=0 refuses=0 errors=0 dies=0"},
	{"unauthorized", "auth=1"},
	{"already-done", "already=1 mismatch=1"},
	{"failed-at-once", "fails_now=1"},
	{"asked-first", "first=1"},
	{"standby", "failover=1 busy=0"},
	{"come-back-late", "retry=8"},
	{"three-tries", "attempts=3 people=0 busy=0 refuses=0"},
	{"moved", "moves=1 people=0 busy=0"},
	{"moved-people", "moves=1 attempts=1 busy=0 refuses=0 errors=0 dies=0"},
};

/* And for fewer still: the largest graphs. Only restores with two tries in both
 * time lines may be cut off. */
const Part large[] = {
	{"clock-set-accepted", "steps=15 pends=1 fails=1 hooks=1 people=0 busy=0 refuses=0 "
	                       "dies=0 errors=0"},
	{"people-accepted", "pends=1 hooks=1 busy=0 refuses=0 errors=0 dies=0"},
	{"people-failed-later", "pends=1 fails=1 hooks=1 busy=0 refuses=0 errors=0 "
	                        "dies=0"},
	{"archived", "pends=1 hooks=1 archives=1 people=0 busy=0 dies=0 errors=0"},
	{"reissued-after-two", "reissue=1 busy=0 refuses=0 dies=0 errors=0"},
	{"restored-reissued", "backup=1 reissue=1 attempts=1 patience=3 crashes=0 busy=0 "
	                      "refuses=0 declines=0 dies=0 errors=0"},
	{"restored-after-two", "backup=1 attempts=2 crashes=0 busy=0 refuses=0 dies=0 "
	                       "errors=0 limit=20"},
};

typedef void Each(const std::string &line);

/* Later fields win. */
void
line(const Part &store, const Part &lookup, const Part &flight, const Part &what,
     Each *each)
{
	each(std::string(store.name) + "/" + lookup.name + "/" + flight.name + "/" +
	     what.name + " " + lookup.fields + " " + flight.fields + " " + what.fields +
	     " " + store.fields);
}

void
cross(const Part &what, Each *each)
{
	for (const Part &store : stores)
		for (const Part &lookup : lookups)
			for (const Part &flight : flights)
				line(store, lookup, flight, what, each);
}

/* Each shows one rule best, at little cost. */
const char *const special[] = {
	"special/late-says-nothing lemma=1",
	"special/clock-went-backwards lemma=2",
	"special/clock-set steps=15 recipe=1 stores=0 marked=0 busy=0 refuses=0 dies=0",
	"special/clock-set-no-key steps=15 recipe=1 stores=0 marked=0 ttl=0 key=0 flight=2 "
	"busy=0 refuses=0 dies=0",
	"special/clock-set-blind steps=15 recipe=0 flight=2 busy=0 refuses=0 declines=0",
	"special/clock-set-reissued steps=15 recipe=0 reissue=1 attempts=1 busy=0 "
	"refuses=0 dies=0",
	"special/clock-set-a-little steps=3 size=3 recipe=0 ttl=6 patience=9 attempts=3 "
	"people=0 busy=0 refuses=0 declines=0 errors=0",
	"special/another-place lemma=3",
	"special/moved recipe=1 moves=1 people=0 crashes=0 refuses=0 declines=0 errors=0 "
	"dies=0",
	"special/moved-no-key recipe=1 moves=1 stores=0 marked=0 ttl=0 key=0 people=0 "
	"refuses=0 dies=0 errors=0",
	"special/moved-blind recipe=0 moves=1 flight=2 busy=0",
	"special/moved-refused recipe=1 moves=1 people=0 busy=0 dies=0 errors=0 crashes=0",
	"special/moved-reissued recipe=1 stores=0 marked=0 ttl=0 key=0 moves=1 attempts=1 "
	"reissue=1 busy=0 refuses=0 dies=0 errors=0 crashes=0",
	"special/moved-objects recipe=1 stores=0 marked=0 ttl=0 key=0 moves=1 pends=1 fails=1 "
	"hooks=1 people=0 busy=0 refuses=0 declines=0 dies=0 errors=0 crashes=0",
	"special/moved-restored recipe=1 moves=1 backup=1 attempts=1 busy=0 refuses=0 "
	"errors=0 dies=0 declines=0 crashes=0 people=0",
	"special/moved-restored-reissued recipe=1 stores=0 marked=0 ttl=0 key=0 patience=2 "
	"moves=1 backup=1 attempts=1 busy=0 refuses=0 errors=0 dies=0 declines=0 reissue=1 "
	"crashes=0",
	"special/unmarked-is-no-proof lemma=4",
	"special/unmarked recipe=1 stores=0 marked=0 unmarked=1 timeout=2 crashes=0 "
	"errors=0 dies=0",
	"special/lagging recipe=1 lag=1 stores=0 marked=0 busy=0 refuses=0",
	"special/archived recipe=1 stores=1 marked=0 pends=1 archives=1 busy=0 dies=0 "
	"declines=0",
	"special/archived-refused recipe=1 pends=1 archives=1 busy=0 dies=0 errors=0 "
	"declines=0 crashes=0",
	"special/failed-twice recipe=1 stores=1 marked=0 guards=1 clean=1 fails_now=1 "
	"busy=0 refuses=0 declines=0 dies=0",
	"special/failed-lost recipe=1 stores=1 marked=0 guards=1 clean=1 fails_now=1 "
	"backup=1 busy=0 refuses=0 declines=0 errors=0 dies=0 crashes=0 people=0",
	"special/reissued-webhooks recipe=0 stores=0 marked=0 reissue=1 hooks=1 "
	"reverses=1 fails_now=1 busy=0 refuses=0 declines=0 dies=0 attempts=1",
	"special/restored-blind recipe=0 reissue=1 backup=1 attempts=1 busy=0 "
	"declines=0 dies=0",
	"special/restored-asked recipe=1 stores=0 marked=0 ttl=0 key=0 patience=2 "
	"backup=1 attempts=1 busy=0 refuses=0 errors=0 dies=0 declines=0 reissue=1 "
	"crashes=0",
	"special/restored-strong recipe=1 backup=1 attempts=1 busy=0 refuses=0 dies=0 "
	"errors=0 crashes=0",
	"special/held-restored recipe=1 held=1 backup=1 attempts=1 busy=0 refuses=0 "
	"errors=0 dies=0 declines=0 crashes=0",
	"special/short-window recipe=0 ttl=5 patience=9 attempts=3",
	"special/told-to-go-on recipe=0 attempts=3 busy=0 dies=0",
	"special/held-blind recipe=0 held=1 not_after=3 busy=0",
	"special/longer-lease recipe=0 client=1 ttl=6 attempts=3 busy=0 refuses=0 dies=0",
	"special/poisoned recipe=1 poison=1 attempts=1 busy=0 refuses=0 declines=0 dies=0 "
	"errors=0 crashes=0",
	"special/poisoned-reversed recipe=1 poison=1 reverses=1 hooks=1 attempts=1 busy=0 "
	"refuses=0 declines=0 dies=0 errors=0 crashes=0",
	"special/row-is-held recipe=1 holds=1 attempts=1 busy=0 declines=0 dies=0",
	"special/held-until held=1 recipe=0 not_before=2 busy=0 attempts=1 reissue=1",
	"special/done-before recipe=1 first=1 there=1 held=1 hooks=1 pends=1 fails_now=1 "
	"attempts=1 busy=0 refuses=0 declines=0 dies=0 errors=0 crashes=0",
	"special/asked-first-until recipe=1 first=1 held=1 not_after=3 attempts=1 busy=0 "
	"declines=0 dies=0",
	"special/backs-off recipe=1 grows=1 attempts=3 people=0 busy=1 refuses=0 declines=0 "
	"dies=0 errors=0 crashes=0",
	"special/come-back-before recipe=0 retry=-1 attempts=1 refuses=0 declines=0",
	"special/unauthorized recipe=1 auth=1 busy=0 refuses=0 declines=0 dies=0 errors=0",
	"special/failed-twice-blind recipe=0 attempts=3 stores=1 marked=0 guards=1 clean=1 fails_now=1 "
	"hooks=1 busy=0 refuses=0 declines=0 dies=0",
	"special/anonymous recipe=1 anonymous=1 hooks=1 reverses=1 attempts=1 busy=0 "
	"refuses=0 declines=0 dies=0 errors=0",
	"special/poisoned-blind recipe=0 ttl=0 poison=1 attempts=1 busy=0 refuses=0 "
	"declines=0 dies=0 errors=0 crashes=0",
	"special/restored-accepted recipe=1 key=0 ttl=0 stores=0 marked=0 pends=1 backup=1 "
	"attempts=1 people=0 busy=0 refuses=0 declines=0 dies=0 errors=0 crashes=0",
	"special/restored-reversed recipe=0 reverses=1 hooks=1 backup=1 attempts=1 people=0 "
	"busy=0 refuses=0 declines=0 dies=0 errors=0 crashes=0",
	"special/reissued-late recipe=0 key=0 ttl=0 stores=0 marked=0 pends=1 fails=1 hooks=1 reissue=1 attempts=1 busy=0 "
	"refuses=0 declines=0 dies=0 errors=0 crashes=0",
	"special/no-key-asked-first recipe=1 stores=0 marked=0 ttl=0 key=0 first=1",
};

/* One promise broken in each; each must end in a story. */
const char *const assumptions[] = {
	"takes-effect-later-than-flight recipe=1 stores=0 marked=0 late_effect=1",
	"forgets-the-key-before-ttl recipe=0 forgets=1",
	"does-not-keep-what-it-says-it-keeps recipe=0 drops=1",
	"answers-4xx-after-an-effect recipe=1 lies=1",
	"answers-429-after-an-effect recipe=1 busy_lies=1",
	"answers-401-after-an-effect recipe=1 auth_lies=1",
	"marks-as-replay-what-is-none recipe=0 mismarks=1",
	"a-failed-object-comes-back-to-life recipe=1 fails_now=1 revives=1",
	"a-strong-lookup-lags recipe=1 stores=0 marked=0 stale=1",
	"the-wire-doubles-a-request recipe=1 stores=0 marked=0 ttl=0 key=0 doubles=1 "
	"refuses=0 declines=0 busy=0",
	"the-clock-is-set-back-while-the-machine-is-down steps=8 size=3 recipe=0 ttl=6 "
	"patience=9 attempts=3 busy=0 refuses=0 declines=0",
	"a-worker-sends-later-than-margin recipe=0 late_send=1",
	"a-person-says-failed-although-it-happened recipe=1 person_lies=1",
};

/* The part of the cross that runs with every test. */
const char *const often[] = {
	"all/blind/near/wire",        "all/blind/far/wire",
	"all/strong/far/wire",        "all-unmarked/blind/far/wire",
	"all-declared/blind/far/wire", "all-unlocked/strong/far/wire",
	"state/blind/far/wire",       "success/strong/far/wire",
	"success-clean/blind/far/wire", "success-told/blind/near/wire",
	"nothing/strong/near/wire",   "nothing/eventual/far/wire",
	"short-ttl/blind/near/wire",  "short-ttl/blind/far/client",
	"short-ttl/strong/near/wire", "no-key/blind/near/wire",
	"no-key/strong/far/wire",     "all/blind/far/reissued",
	"no-key/strong/near/reissued", "all/blind/far/accepted",
	"no-key/strong/near/accepted", "all/blind/far/reversed",
	"no-key/blind/near/reversed", "state/blind/near/reversed",
	"state/blind/far/people-reversed", "no-key/blind/far/people-reversed",
	"no-key/strong/far/people-reversed",
	"no-key/strong/near/reversed", "all/blind/far/failed-later",
	"no-key/strong/far/failed-later", "all/blind/far/held",
	"all/blind/far/client",       "no-key/blind/near/client",
	"no-key/blind/near/restored", "all/blind/far/restored",
	"all/blind/far/standby",      "all/blind/far/already-done",
	"all/blind/far/come-back-late", "all/blind/far/three-tries",
	"all/blind/far/unauthorized", "success/blind/far/wire",
};

/* Some stores, by their place in the list above. */
void
blind_and_strong(const Part &what, std::initializer_list<int> which, Each *each)
{
	for (int store : which)
		for (int lookup : {0, 1})
			line(stores[store], lookups[lookup], flights[1], what, each);
}

void
each_line(Each *each)
{
	for (const Part &what : happenings)
		cross(what, each);
	for (const Part &what : beside)
		blind_and_strong(what, {0, 1, 4, 5, 10}, each);
	for (const Part &what : large)
		blind_and_strong(what, {0, 5, 10}, each);
	for (const char *one : special)
		each(one);
}

void
print(const std::string &line)
{
	puts(line.c_str());
}

void
print_often(const std::string &line)
{
	std::string name = line.substr(0, line.find(' '));
	bool        listed = name.compare(0, 8, "special/") == 0;

	for (const char *one : often)
		listed = listed || name == one;
	if (listed)
		print(line);
}

} // namespace

int
grid_print(const char *name)
{
	if (strcmp(name, "full") == 0)
		each_line(print);
	else if (strcmp(name, "short") == 0)
		each_line(print_often);
	else if (strcmp(name, "assumptions") == 0)
	{
		for (const char *one : assumptions)
			printf("%s story=1\n", one);
	}
	else
		return 2;
	return 0;
}
