#include "probed.h"

#include <set>

#ifndef PROBED

std::vector<std::string>
probed_ways()
{
	return {};
}

std::vector<std::string>
probed_all_ways()
{
	return {};
}

void
probed_mutants(long (*)(long), std::string (*)(long))
{
}

void
probed_begin()
{
}

void
probed_end()
{
}

void
probed_evidence(const OplOperation &, const OplFinding &)
{
}

void
probed_arrow(OplState, OplState)
{
}

#else

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "points.h"

extern "C" {
#include "probe.h"
}

#define X(name) name,
static const char *const points[] = {OPL_POINTS(X)};
static const char *const branches[] = {OPL_BRANCHES(X)};
#undef X

static const int POINTS = sizeof points / sizeof *points;
static const int BRANCHES = sizeof branches / sizeof *branches;
static const char *const kinds[] = {"send", "lookup", "door", "late"};

int           opl_mutant;
unsigned char opl_branches[sizeof branches / sizeof *branches];

/* Rows of the table and of the door: whose evidence, what it proves, in which state. */
static unsigned char rows[4][OPL_VERDICT_COUNT][OPL_STATE_COUNT];
static unsigned char arrows[OPL_STATE_COUNT][OPL_STATE_COUNT];

void
probed_evidence(const OplOperation &op, const OplFinding &f)
{
	rows[f.kind][f.verdict][op.state] = 1;
}

void
probed_arrow(OplState from, OplState to)
{
	arrows[from][to] = from != to;
}

std::vector<std::string>
probed_ways()
{
	std::vector<std::string> ways;

	for (int i = 0; i < BRANCHES; i++)
	{
		if (opl_branches[i])
			ways.push_back(branches[i]);
	}
	for (int k = 0; k < 4; k++)
	{
		for (int v = 0; v < OPL_VERDICT_COUNT; v++)
		{
			for (int s = 0; s < OPL_STATE_COUNT; s++)
			{
				if (rows[k][v][s])
					ways.push_back(std::string("row ") + kinds[k] + ": " +
					               opl_verdict_name((OplVerdict) v) + " in " +
					               opl_state_name((OplState) s));
			}
		}
	}
	for (int a = 0; a < OPL_STATE_COUNT; a++)
	{
		for (int b = 0; b < OPL_STATE_COUNT; b++)
		{
			if (arrows[a][b])
				ways.push_back(std::string("arrow ") + opl_state_name((OplState) a) +
				               " -> " + opl_state_name((OplState) b));
		}
	}
	memset(opl_branches, 0, sizeof opl_branches);
	memset(rows, 0, sizeof rows);
	memset(arrows, 0, sizeof arrows);
	return ways;
}

/* Does such evidence reach such an operation? Else nobody asks. */
static bool
comes_about(OplKind kind, OplVerdict v, OplState s)
{
	bool of_send = v <= OPL_V_UNKNOWN;
	bool shows = v == OPL_V_FOUND || v == OPL_V_FOUND_PENDING || v == OPL_V_FOUND_FAILED;

	switch (kind)
	{
		case OPL_KIND_SEND:
			return s == OPL_SUBMITTED && (of_send || v == OPL_V_FOUND_FAILED);
		case OPL_KIND_LOOKUP:
			return !of_send && (s == OPL_PENDING || s == OPL_UNKNOWN || s == OPL_ACCEPTED ||
			                    s == OPL_REVIEW);
		case OPL_KIND_DOOR:
			return shows;
		default: /* nobody is late for what was never asked */
			return s != OPL_HELD &&
				(shows || v == OPL_V_CONFIRMED || v == OPL_V_ACCEPTED);
	}
}

std::vector<std::string>
probed_all_ways()
{
	memset(opl_branches, 1, sizeof opl_branches);
	for (int k = 0; k < 4; k++)
	{
		for (int v = 0; v < OPL_VERDICT_COUNT; v++)
		{
			for (int s = 0; s < OPL_STATE_COUNT; s++)
				rows[k][v][s] = comes_about((OplKind) k, (OplVerdict) v, (OplState) s);
		}
	}
	for (int a = 0; a < OPL_STATE_COUNT; a++)
	{
		for (int b = 0; b < OPL_STATE_COUNT; b++)
			arrows[a][b] = a != b && opl_state_may_become((OplState) a, (OplState) b);
	}
	return probed_ways();
}

/* A mutant may crash, or go on for ever: then it differs, too. MODEL_PART=i/n does every
 * n-th of them only. */
void
probed_mutants(long (*difference)(long from), std::string (*name)(long cell))
{
	const char *part = getenv("MODEL_PART");
	int         first = 0, stride = 1;
	long        last = 0; /* what notices one point often notices the next */

	if (part && (sscanf(part, "%d/%d", &first, &stride) != 2 || stride < 1))
		exit(2);
	for (int m = 1 + first; m <= POINTS; m += stride)
	{
		long  cell = -1;
		int   ends[2], status;
		pid_t child;

		fflush(stdout);
		if (pipe(ends) != 0 || (child = fork()) < 0)
		{
			perror("model: fork");
			exit(2);
		}
		if (child == 0)
		{
			const struct rlimit    none = {0, 0};
			const struct itimerval enough = {{0, 0}, {0, 100000}};

			setrlimit(RLIMIT_CORE, &none);
			setitimer(ITIMER_PROF, &enough, nullptr);
			close(STDERR_FILENO);
			opl_mutant = m;
			opl_mutate();
			cell = difference(last);
			_exit(write(ends[1], &cell, sizeof cell) != sizeof cell);
		}
		close(ends[1]);

		bool told = read(ends[0], &cell, sizeof cell) == sizeof cell;

		close(ends[0]);
		waitpid(child, &status, 0);
		printf("%d\t%s\t%s\n", m, points[m - 1],
		       !told ? "it crashes or does not end" : cell < 0 ? "" : name(cell).c_str());
		if (told && cell >= 0)
			last = cell;
	}
}

void
probed_begin()
{
	const char *mutant = getenv("MODEL_MUTANT");

	if (!mutant)
		return;
	opl_mutant = atoi(mutant);
	opl_mutate();
}

/* One write a process: several append to the same file. */
void
probed_end()
{
	const char *path = getenv("MODEL_WAYS");
	std::string text;
	int         fd;

	if (!path)
		return;
	for (const std::string &way : probed_ways())
		text += way + "\n";
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0666);
	if (fd < 0 || write(fd, text.data(), text.size()) != (ssize_t) text.size())
	{
		perror(path);
		exit(2);
	}
	close(fd);
}

#endif
