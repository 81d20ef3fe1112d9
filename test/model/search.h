/*
 * search.h - walks through every world that a scenario can reach, breadth
 * first, and then asks of the whole graph whether an end stays reachable and
 * whether the machine can go round in circles.
 */
#ifndef MODEL_SEARCH_H
#define MODEL_SEARCH_H

#include <string>
#include <vector>

#include "actors.h"

struct Outcome
{
	u64         states = 0;
	u64         steps = 0;
	int         depth = 0;
	bool        cut = false;      /* the limit was reached */
	std::string bad;              /* the property that does not hold, or "" */
	std::vector<std::string> story;
};

extern Outcome search(const Scenario &s);

#endif
