#include "scenario.h"

#include <cstdio>
#include <cstdlib>
#include <sstream>

static bool
assign(Scenario *s, const std::string &key, int value)
{
#define X(field, initial, meaning)                                             \
	if (key == #field)                                                         \
		return s->field = value, true;
	SCENARIO_FIELDS(X)
#undef X
	return false;
}

/* What the promises leave open follows from them. */
static void
complete(Scenario *s)
{
	if (s->guards < 0)
		s->guards = s->stores >= OPL_STORES_STATE;
	if (s->keeps < 0)
		s->keeps = s->stores;

	int quiet = s->margin + s->flight + s->lag + 1;
	int reach = s->flight > s->timeout ? s->flight : s->timeout;

	if (s->ttl < 0)
		s->ttl = quiet + s->margin + reach + 1;
	if (s->patience < 0)
		s->patience = quiet + 1;
	if (s->give_up < 0)
		s->give_up = quiet + 1;
}

bool
scenario_parse(const std::string &line, Scenario *s)
{
	std::istringstream words(line);
	std::string        word;

	*s = Scenario();
	words >> s->name;
	while (words >> word)
	{
		size_t eq = word.find('=');

		if (eq == std::string::npos ||
		    !assign(s, word.substr(0, eq), atoi(word.c_str() + eq + 1)))
		{
			fprintf(stderr, "model: %s: what is \"%s\"?\n", s->name.c_str(),
			        word.c_str());
			return false;
		}
	}
	complete(s);
	return !s->name.empty();
}

OplPromises
promises_of(const Scenario &s)
{
	OplPromises p = {};

	p.ttl = s.ttl * TICK;
	p.stores = (OplStores) s.stores;
	p.guards = s.guards;
	p.margin = s.margin * TICK;
	p.timeout = s.timeout * TICK;
	p.flight = s.flight * TICK;
	p.lag = s.lag * TICK;
	p.recipe = s.recipe;
	p.attempts = s.attempts;
	p.patience = s.patience * TICK;
	p.give_up = s.give_up * TICK;
	p.initial = TICK;
	p.base = s.grows ? 4 : 1;
	p.max = s.grows ? 3 * TICK : TICK;
	p.jitter = 0;
	p.client = s.client;
	return p;
}
