/*
 * actors.h - who can do what in a world: all steps that may come next.
 */
#ifndef MODEL_ACTORS_H
#define MODEL_ACTORS_H

#include <string>
#include <vector>

#include "scenario.h"
#include "world.h"

/* What a step is, as far as the search for circles asks. */
enum Class
{
	MACHINE, /* worker, wire, provider */
	CLOCK,   /* time passes, and nothing waits for a worker */
	REST     /* people, webhooks, crashes, and time that runs from a worker */
};

struct Step
{
	Packed      to;
	Class       kind;
	const char *bad; /* the property that it violates, or NULL */
};

class Actors
{
  public:
	explicit Actors(const Scenario &scenario);
	World first() const;

	/* All steps from a world. With `stories`, also what each one is in words. */
	void steps(const World &from, std::vector<Step> *out,
	           std::vector<std::string> *stories = nullptr);

	/* What the world looks like, in words. */
	std::string picture(const World &w) const;

	/* Has it ended? Does it wait for a person? */
	bool ended(const World &w) const;
	bool waits_for_person(const World &w) const;

  private:
	struct Finding
	{
		OplVerdict verdict;
		int        object; /* NOBODY: none */
		bool       flag;
		OplKind    kind;
		OplMoment  started_at;
		int        place; /* that what was claimed with it was claimed for */
	};

	const Scenario    s;
	const OplPromises p;
	OplMoment         cap_last, cap_first, cap_trying, cap_since;
	const World      *from = nullptr;
	const char       *bad = nullptr;
	std::string       said;
	std::vector<Step> *out = nullptr;
	std::vector<std::string> *stories = nullptr;

	void say(const char *format, ...) __attribute__((format(printf, 2, 3)));
	void emit(World w, Class kind);
	void blame(const char *property);
	const char *check(const World &w) const;
	void tidy(World *w) const;

	/* ledger */
	OplClock clock(const Ledger &l) const;
	OplMoment moment(const Ledger &l, u8 age, bool old) const;
	OplOperation operation(const Ledger &l) const;
	OplPromises promises(int place) const;
	bool store(Ledger *l, const OplDecision &d) const;
	void follow(World *w, const OplDecision &d, int object, bool person);
	OplFinding finding(const World &w, const Finding &f) const;
	void decide(World w, const Finding &f, Class kind);

	/* workers */
	void claim(const World &w);
	void put_off(const World &w);
	void condemn(const World &w);
	void claimed(World w, int slot, OplClaim what, const OplDecision &d);
	void worker(const World &w, int slot);
	void hand_over(World w, int slot);
	void settle(const World &w, int slot);
	void crash(World w, int slot);
	void look(const World &w, int slot);
	void looked(World w, int slot, OplVerdict verdict, int object);
	void look_further(World w, int slot, int object, u8 *shown);
	void classify_list(const World &w, int slot, const u8 *shown);

	/* wire and provider */
	void arrive(const World &w, int request);
	void take_key(World w, int request);
	void replay(const World &w, int request);
	void at_work(const World &w, int request);
	void effect(const World &w, int request, Kept how);
	void answer(World w, int request, OplVerdict verdict, int object, bool flag,
	            bool changed);
	bool locked(const World &w, const Request &r) const;
	void keep_error(World *w, const Request &r, bool took_effect, int object) const;
	int  create(World *w, const Request &r, Kept how);
	void objects(const World &w);
	void beforehand(const World &w);
	void webhooks(const World &w);

	/* the rest */
	void tick(World w);
	void set_clock(const World &w);
	bool urgent(const World &w) const;
	void people(const World &w);
	void people_wait(const World &w);
	void person(const World &w, OplVerb verb, const OplDecision &d, int object);
	void move(const World &w);
	void take_over(const World &w);
	void lose_workers(World *w) const;
};

#endif
