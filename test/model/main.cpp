/*
 * model - runs scenarios and prints one line for each.
 *
 *	  model run        scenarios from the standard input
 *	  model list full | short | assumptions
 *	  model fields     what a scenario line may say
 */
#include <chrono>
#include <cstdio>
#include <cstring>
#include <iostream>

#include "grid.h"
#include "lemma.h"
#include "probed.h"
#include "search.h"

static const char *
verdict(const Scenario &s, const Outcome &o)
{
	if (o.cut)
		return "cut";
	if (o.bad.empty())
		return s.story ? "NO STORY" : "holds";
	return s.story ? "story" : "VIOLATED";
}

/* 0: as expected. */
static int
run(const Scenario &s)
{
	auto    start = std::chrono::steady_clock::now();
	Outcome o = s.lemma ? lemma(s.lemma) : search(s);
	std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
	bool as_wanted = o.cut || o.bad.empty() != (s.story != 0);

	printf("%-44s %10llu states  depth %3d  %7.2f s  %s%s%s\n", s.name.c_str(),
	       (unsigned long long) o.states, o.depth, took.count(), verdict(s, o),
	       o.bad.empty() ? "" : ": ", o.bad.c_str());
	for (const std::string &line : o.story)
		printf("    %s\n", line.c_str());
	fflush(stdout);
	return !as_wanted;
}

static int
run_all()
{
	std::string line;
	Scenario    s;
	int         failed = 0;

	while (std::getline(std::cin, line))
	{
		if (line.empty() || line[0] == '#')
			continue;
		if (!scenario_parse(line, &s))
			return 2;
		failed |= run(s);
	}
	return failed;
}

static int
fields()
{
#define X(field, initial, meaning) printf("%-12s %3d  %s\n", #field, initial, meaning);
	SCENARIO_FIELDS(X)
#undef X
	return 0;
}

int
main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "run") == 0)
	{
		probed_begin();

		int status = run_all();

		probed_end();
		return status;
	}
	if (argc == 3 && strcmp(argv[1], "list") == 0)
		return grid_print(argv[2]);
	if (argc == 2 && strcmp(argv[1], "fields") == 0)
		return fields();
	fprintf(stderr, "usage: model run | list full|short|assumptions | fields\n");
	return 2;
}
