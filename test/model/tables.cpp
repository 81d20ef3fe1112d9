/*
 * tables - what follows, row by row: every function of the rules on chosen cases.
 *
 *	  tables check FILE     each cell says what the rules say
 *	  tables write FILE     the file with what they say now, laid out
 *	  tables ways FILE      (probed) every way, and the cell that first takes it
 *	  tables mutants FILE   (probed) the table that first differs, by point
 *
 * tables.txt says at its head how it is written.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "probed.h"

extern "C" {
#include "rules/decide.h"
}

namespace
{

const OplMoment NOW = INT64_C(800000000) * OPL_SECOND;

/* What a case may say beside the operation, the promises and the finding. */
struct Case
{
	std::string  call = "decide";
	OplOperation op = {};
	OplPromises  p = {};
	OplFinding   f = {};
	OplClock     clock = {NOW, OPL_NEVER, OPL_NEVER, 0};
	OplStep      step = OPL_STEP_NONE;
	OplState     outcome = OPL_FAILED, to = OPL_PENDING;
	OplMoment    lease = 0, due = 0, last_look = 0, not_before = 0, created = 0;
	bool         first = false, external = false, guarded = false, held = false,
		 rejected = false;
	std::string word;
};

struct Cell
{
	Case        c;
	std::string said; /* what the file says */
};

struct Row
{
	std::string       label; /* "" : a line that is no row */
	std::vector<Cell> cells;
};

struct Table
{
	std::string              title, common;
	std::vector<std::string> columns;
	std::vector<Row>         rows;
	std::string              before; /* lines of the file above it */
	int                      line = 0;
};

[[noreturn]] void
fail(int line, const std::string &what)
{
	fprintf(stderr, "tables: line %d: %s\n", line, what.c_str());
	exit(2);
}

/* ------------------------------------------------------------- the words */

OplMoment
duration(const std::string &text, int line)
{
	char  *end;
	double value = strtod(text.c_str(), &end);
	double unit = *end == 0 || !strcmp(end, "s") ? 1
		: !strcmp(end, "min")                    ? 60
		: !strcmp(end, "h")                      ? 3600
		: !strcmp(end, "d")                      ? 86400
		                                         : 0;

	if (unit == 0 || end == text.c_str())
		fail(line, "how long is " + text + "?");
	return (OplMoment) (value * unit * 1e6 + (value < 0 ? -0.5 : 0.5));
}

OplMoment
moment(const std::string &text, int line)
{
	return text == "never" ? OPL_NEVER : NOW + duration(text, line);
}

int
place(const char *const *names, int count, const std::string &name, int line)
{
	for (int i = 0; i < count; i++)
	{
		if (name == names[i])
			return i;
	}
	fail(line, "what is " + name + "?");
}

const char *const states[] = {
#define X(id, name, effect, next) name,
	OPL_STATES(X)
#undef X
};
const char *const seals[] = {
#define X(id, name) name,
	OPL_SEALS(X)
#undef X
};
const char *const verdicts[] = {
#define X(id, name) name,
	OPL_VERDICTS(X)
#undef X
};
const char *const stores[] = {
#define X(id, name) name,
	OPL_STORES(X)
#undef X
};
const char *const kinds[] = {"send", "lookup", "door", "late"};
const char *const objects[] = {"none", "same", "other"};
const char *const steps[] = {"none", "send", "lookup"};
const char *const claims[] = {"send", "lookup", "client", "nothing"};
const char *const verbs[] = {"ok",       "wrong_state",   "too_late", "not_quiet",
                             "no_id",    "contradiction", "no_lookup"};

#define NAMED(names) place(names, sizeof names / sizeof *names, v, line)

void
set(Case *c, const std::string &field, const std::string &v, int line)
{
	typedef std::map<std::string, OplMoment *> Moments;
	typedef std::map<std::string, bool *>      Flags;
	typedef std::map<std::string, int *>       Counts;
	OplOperation &op = c->op;
	OplPromises  &p = c->p;
	OplFinding   &f = c->f;
	const Moments moments = {{"trying", &op.trying_since}, {"first", &op.first_sent_at},
	                         {"last", &op.last_sent_at},   {"not_after", &op.not_after},
	                         {"started", &f.started_at},   {"retry", &f.retry_at},
	                         {"due", &c->due},             {"last_look", &c->last_look},
	                         {"not_before", &c->not_before}, {"created", &c->created},
	                         {"steady", &c->clock.steady_since},
	                         {"set_back_from", &c->clock.set_back_from}};
	const Moments durations = {{"ttl", &p.ttl},         {"margin", &p.margin},
	                           {"timeout", &p.timeout}, {"flight", &p.flight},
	                           {"lag", &p.lag},         {"patience", &p.patience},
	                           {"give_up", &p.give_up}, {"initial", &p.initial},
	                           {"max", &p.max},         {"lease", &c->lease},
	                           {"set_back_by", &c->clock.set_back_by}};
	const Flags flags = {{"tainted", &op.tainted},         {"contradiction", &op.contradiction},
	                     {"adopted", &op.adopted},         {"guards", &p.guards},
	                     {"recipe", &p.recipe},            {"client", &p.client},
	                     {"keyed", &f.keyed},              {"object_failed", &f.object_failed},
	                     {"same_generation", &f.same_generation}, {"unmarked", &f.unmarked},
	                     {"lookup_first", &c->first},      {"external", &c->external},
	                     {"guarded", &c->guarded},         {"born_held", &c->held},
	                     {"rejected", &c->rejected}};
	const Counts counts = {{"generation", &op.generation}, {"attempts", &op.attempts},
	                       {"tries", &op.tries},           {"allowed", &p.attempts}};

	if (moments.count(field))
		*moments.at(field) = moment(v, line);
	else if (durations.count(field))
		*durations.at(field) = duration(v, line);
	else if (flags.count(field))
	{
		if (v != "yes" && v != "no")
			fail(line, field + " is yes or no, not " + v);
		*flags.at(field) = v == "yes";
	}
	else if (counts.count(field))
		*counts.at(field) = atoi(v.c_str());
	else if (field == "call" || field == "word")
		(field == "call" ? c->call : c->word) = v;
	else if (field == "base" || field == "jitter" || field == "dice")
		(field == "base" ? p.base : field == "jitter" ? p.jitter : f.dice) = atof(v.c_str());
	else if (field == "place" || field == "asked")
		(field == "place" ? op.place : p.place) =
			v == "nowhere" ? OPL_NOWHERE : v == "anywhere" ? OPL_ANYWHERE : atoi(v.c_str());
	else if (field == "state")
		op.state = (OplState) NAMED(states);
	else if (field == "to")
		c->to = (OplState) NAMED(states);
	else if (field == "outcome")
		c->outcome = (OplState) NAMED(states);
	else if (field == "sealed")
		op.sealed = (OplSeal) NAMED(seals);
	else if (field == "stores")
		p.stores = (OplStores) NAMED(stores);
	else if (field == "verdict")
		f.verdict = (OplVerdict) NAMED(verdicts);
	else if (field == "kind")
		f.kind = (OplKind) NAMED(kinds);
	else if (field == "object")
		f.object = (OplObject) NAMED(objects);
	else if (field == "step")
		c->step = (OplStep) NAMED(steps);
	else
		fail(line, "there is no field " + field);
}

typedef std::map<std::string, std::string> Words;

/* "a=1, name b=2": names stand for what `let` says. */
void
apply(Case *c, const std::string &text, const Words &words, int line)
{
	std::string        plain = text;
	std::istringstream in;
	std::string        word;

	for (char &letter : plain)
		letter = letter == ',' ? ' ' : letter;
	in.str(plain);
	while (in >> word)
	{
		size_t eq = word.find('=');

		if (eq != std::string::npos)
			set(c, word.substr(0, eq), word.substr(eq + 1), line);
		else if (words.count(word))
			apply(c, words.at(word), words, line);
		else
			fail(line, "nothing says what \"" + word + "\" is");
	}
}

Case
plain_case()
{
	Case c;

	c.op.generation = 1;
	c.op.trying_since = c.op.first_sent_at = c.op.last_sent_at = c.op.not_after = OPL_NEVER;
	c.f.started_at = NOW;
	c.f.retry_at = OPL_NEVER;
	c.f.same_generation = true;
	c.f.kind = OPL_KIND_LOOKUP;
	c.due = c.not_before = c.last_look = OPL_NEVER;
	c.created = NOW;
	return c;
}

/* -------------------------------------------------------------- the answers */

std::string
when(OplMoment at)
{
	char text[64];

	if (at == OPL_NEVER)
		return "never";
	if (at < NOW / 2)
		return "long-ago";
	snprintf(text, sizeof text, "%.6f", (double) (at - NOW) / 1e6);

	std::string s = text;

	while (s.back() == '0')
		s.pop_back();
	if (s.back() == '.')
		s.pop_back();
	return s == "-0" ? "0" : s;
}

const char *
words_of(const char *name)
{
	return name ? name : "-";
}

/* What changes, and what comes next. */
std::string
told(const OplOperation &op, const OplDecision &d)
{
	const OplOperation &a = d.after;
	std::string         s = d.moved ? opl_state_name(a.state) : "noted";

	probed_arrow(op.state, a.state);

	if (!d.moved && a.state != op.state)
		s += std::string(" BUT ") + opl_state_name(a.state);
	if (d.step != OPL_STEP_NONE)
		s += std::string(" ") + words_of(opl_step_name(d.step));
	if (d.due_at != OPL_NEVER)
		s += " " + when(d.due_at);
	if (a.sealed != op.sealed)
		s += std::string(" [") + opl_seal_name(a.sealed) + "]";
	if (a.contradiction != op.contradiction)
		s += a.contradiction ? " !" : " !closed";
	if (a.tainted != op.tainted)
		s += a.tainted ? " tainted" : " CLEAN";
	if (a.adopted != op.adopted)
		s += a.adopted ? " adopted" : " unadopted";
	if (a.generation != op.generation)
		s += " generation " + std::to_string(a.generation);
	if (a.attempts != op.attempts)
		s += " attempts " + std::to_string(a.attempts);
	if (a.tries != op.tries)
		s += " tries " + std::to_string(a.tries);
	if (a.trying_since != op.trying_since)
		s += " trying " + when(a.trying_since);
	if (a.first_sent_at != op.first_sent_at)
		s += " first " + when(a.first_sent_at);
	if (a.last_sent_at != op.last_sent_at)
		s += " last " + when(a.last_sent_at);
	if (a.not_after != op.not_after)
		s += " not_after " + when(a.not_after);
	if (a.place != op.place)
		s += " place " + std::to_string(a.place);
	if (d.pause)
		s += " pause";
	if (d.take_object)
		s += " takes";
	if (d.note_failed)
		s += " notes";
	if (d.reason)
		s += std::string(" (") + d.reason + ")";
	return s;
}

std::string
told(const OplOperation &op, OplVerb verb, const OplDecision &d)
{
	std::string more = told(op, d);

	if (verb == OPL_VERB_OK)
		return more;
	return std::string(verbs[verb]) + (more == "noted" ? "" : " BUT " + more);
}

/* What the names stand for, and what there is no name for. */
template <class T>
std::string
name_of(const std::string &word, bool (*parse)(const char *, T *), const char *(*name)(T))
{
	T    value = (T) 1;
	bool known = parse(word.c_str(), &value);

	return (known ? "" : "unknown, ") + std::to_string((int) value) + " " +
		words_of(name(value));
}

std::string
answer(const Case &c)
{
	const OplOperation &op = c.op;
	OplDecision         d = {};

	d.after = op;
	if (c.call == "decide")
	{
		probed_evidence(op, c.f);
		return told(op, opl_decide(&op, &c.p, &c.f, c.clock));
	}
	if (c.call == "claim" || c.call == "ticket")
	{
		OplClaim what = c.call == "claim" ? opl_claim(&op, &c.p, c.step, c.clock, &d)
		                                  : opl_claim_ticket(&op, &c.p, c.lease, c.clock, &d);

		return std::string(claims[what]) + ": " + told(op, d);
	}
	if (c.call == "put_off")
		return told(op, opl_put_off(&op, c.step, NOW));
	if (c.call == "nudge" || c.call == "condemn")
	{
		bool yes = c.call == "nudge" ? opl_nudge(&op, &c.p, c.last_look, c.due, c.clock, &d)
		                             : opl_condemn(&op, NOW, &d);

		return std::string(yes ? "yes: " : "no: ") + told(op, d);
	}
	if (c.call == "quiet_at")
		return when(opl_quiet_at(&op, &c.p, c.clock));
	if (c.call == "elsewhere")
		return opl_elsewhere(&op, &c.p) ? "yes" : "no";
	if (c.call == "gives_up_at")
		return when(opl_gives_up_at(&op, &c.p, c.clock));
	if (c.call == "patience_ends_at")
		return when(opl_patience_ends_at(&op, &c.p, c.clock));
	if (c.call == "key_forgotten_at")
		return when(opl_key_forgotten_at(&op, &c.p, c.clock));
	if (c.call == "born")
	{
		OplOperation nothing = plain_case().op;

		nothing.generation = 0;
		return told(nothing, opl_born(c.held, c.first, op.not_after, c.due));
	}
	if (c.call == "cancel")
	{
		OplVerb verb = opl_cancel(&op, &d);

		return told(op, verb, d);
	}
	if (c.call == "recheck")
	{
		OplVerb verb = opl_recheck(&op, &c.p, NOW, &d);

		return told(op, verb, d);
	}
	if (c.call == "approve")
	{
		OplVerb verb = opl_approve(&op, c.first, c.not_before, NOW, &d);

		return told(op, verb, d);
	}
	if (c.call == "reject")
	{
		OplVerb verb = opl_reject(&op, &d);

		return told(op, verb, d);
	}
	if (c.call == "resolve")
	{
		OplVerb verb = opl_resolve(&op, &c.p, c.outcome, c.external, c.clock, &d);

		return told(op, verb, d);
	}
	if (c.call == "reissue")
	{
		OplVerb verb = opl_reissue(&op, &c.p, c.first, c.not_before, c.clock, &d);

		return told(op, verb, d);
	}
	if (c.call == "adopt")
		return told(op, opl_adopt(&op, &c.p, c.created, c.guarded, c.clock));
	if (c.call == "arrow")
		return opl_state_may_become(op.state, c.to) ? "yes" : "-";
	if (c.call == "state")
		return std::string(opl_state_effect(op.state)) + ", " +
			opl_state_next_action(op.state, c.rejected) +
			(opl_state_ended(op.state) ? ", ended" : "") +
			(opl_state_taints(op.state) ? ", taints" : "");
	if (c.call == "state_name")
		return name_of<OplState>(c.word, opl_state_parse, opl_state_name);
	if (c.call == "seal_name")
		return name_of<OplSeal>(c.word, opl_seal_parse, opl_seal_name);
	if (c.call == "verdict_name")
		return name_of<OplVerdict>(c.word, opl_verdict_parse, opl_verdict_name);
	if (c.call == "step_name")
		return name_of<OplStep>(c.word, opl_step_parse, opl_step_name);
	return "there is no call " + c.call;
}

/* --------------------------------------------------------------- the file */

std::string
trimmed(const std::string &s)
{
	size_t from = s.find_first_not_of(" \t"), to = s.find_last_not_of(" \t");

	return from == std::string::npos ? "" : s.substr(from, to - from + 1);
}

std::vector<std::string>
split(const std::string &s)
{
	std::vector<std::string> parts;
	std::istringstream       in(s);
	std::string              part;

	while (std::getline(in, part, '|'))
		parts.push_back(trimmed(part));
	if (!s.empty() && s.back() == '|')
		parts.push_back("");
	return parts;
}

std::vector<Table>
read(const char *path, std::string *after)
{
	std::ifstream      in(path);
	std::string        text, above;
	Words              words;
	std::vector<Table> all;
	int                line = 0;
	bool               open = false;

	if (!in)
		fail(0, std::string("cannot read ") + path);
	while (std::getline(in, text))
	{
		std::string t = trimmed(text);

		line++;
		if (t.empty())
			open = false;
		if (t.compare(0, 6, "table ") == 0)
		{
			size_t colon = t.find(" : ");

			all.push_back({trimmed(t.substr(6, colon == std::string::npos ? colon : colon - 6)),
			               colon == std::string::npos ? "" : trimmed(t.substr(colon + 3)),
			               {}, {}, above, line});
			above.clear();
			open = true;
			continue;
		}
		if (t.compare(0, 4, "let ") == 0)
		{
			size_t eq = t.find(" : ");

			if (eq == std::string::npos)
				fail(line, "let NAME : words");
			words[trimmed(t.substr(4, eq - 4))] = t.substr(eq + 3);
		}
		if (!open || t.empty() || t[0] == '#')
		{
			above += text + "\n";
			continue;
		}

		Table                   &table = all.back();
		std::vector<std::string> parts = split(t);

		if (table.columns.empty())
		{
			table.columns.assign(parts.begin() + 1, parts.end());
			continue;
		}

		Row row = {parts[0], {}};

		if (parts.size() > table.columns.size() + 1)
			fail(line, "more cells than columns");
		for (size_t i = 0; i < table.columns.size(); i++)
		{
			Case c = plain_case();

			apply(&c, table.common, words, line);
			apply(&c, table.columns[i], words, line);
			apply(&c, row.label, words, line);
			row.cells.push_back({c, i + 1 < parts.size() ? parts[i + 1] : ""});
		}
		table.rows.push_back(row);
	}
	*after = above;
	return all;
}

int
check(const std::vector<Table> &all)
{
	int cells = 0, wrong = 0;

	for (const Table &t : all)
	{
		for (const Row &r : t.rows)
		{
			for (size_t i = 0; i < r.cells.size(); i++)
			{
				std::string is = answer(r.cells[i].c);

				cells++;
				if (is == r.cells[i].said)
					continue;
				wrong++;
				printf("table %s: %s | %s\n    said  %s\n    is    %s\n", t.title.c_str(),
				       r.label.c_str(), t.columns[i].c_str(), r.cells[i].said.c_str(),
				       is.c_str());
			}
		}
	}
	printf("tables: %d cells right, %d wrong\n", cells - wrong, wrong);
	return wrong != 0;
}

void
write(const std::vector<Table> &all, const std::string &after)
{
	for (const Table &t : all)
	{
		std::vector<std::vector<std::string>> lines = {{""}};
		std::vector<size_t>                   width;

		for (const std::string &column : t.columns)
			lines[0].push_back(column);
		for (const Row &r : t.rows)
		{
			lines.push_back({r.label});
			for (const Cell &cell : r.cells)
				lines.back().push_back(answer(cell.c));
		}
		width.assign(t.columns.size() + 1, 0);
		for (auto &l : lines)
		{
			for (size_t i = 0; i < l.size(); i++)
				width[i] = std::max(width[i], l[i].size());
		}
		std::cout << t.before << "table " << t.title;
		if (!t.common.empty())
			std::cout << " : " << t.common;
		std::cout << "\n";
		for (auto &l : lines)
		{
			std::string text;

			for (size_t i = 0; i < l.size(); i++)
				text += (i ? " | " : "") + l[i] + std::string(width[i] - l[i].size(), ' ');
			std::cout << text.substr(0, text.find_last_not_of(' ') + 1) << "\n";
		}
	}
	std::cout << after;
}

} // namespace

/* ------------------------------------------------------------- when probed */

static std::vector<Table> tables;

struct Place
{
	const Table *table;
	const Row   *row;
	size_t       column;
};

static std::vector<Place> places;

static std::string
where(long place)
{
	const Place &p = places[(size_t) place];

	return "table " + p.table->title + ": " + p.row->label + " | " + p.table->columns[p.column];
}

static long
difference(long from)
{
	long count = (long) places.size();

	for (long n = 0; n < count; n++)
	{
		const Place &p = places[(size_t) ((from + n) % count)];
		const Cell  &cell = p.row->cells[p.column];

		if (answer(cell.c) != cell.said)
			return (from + n) % count;
	}
	return -1;
}

static void
ways()
{
	std::map<std::string, std::string> known;

	for (size_t i = 0; i < places.size(); i++)
	{
		answer(places[i].row->cells[places[i].column].c);
		for (const std::string &way : probed_ways())
			known.insert({way, where((long) i)});
	}
	for (const std::string &way : probed_all_ways())
		printf("%s\t%s\n", way.c_str(), known[way].c_str());
}

int
main(int argc, char **argv)
{
	std::string what = argc == 3 ? argv[1] : "", after;

	if (what != "check" && what != "write" && what != "ways" && what != "mutants")
	{
		fprintf(stderr, "usage: tables check | write | ways | mutants FILE\n");
		return 2;
	}
	tables = read(argv[2], &after);
	for (const Table &t : tables)
	{
		for (const Row &r : t.rows)
		{
			for (size_t i = 0; i < r.cells.size(); i++)
				places.push_back({&t, &r, i});
		}
	}
	if (what == "check")
		return check(tables);
	if (what == "write")
		write(tables, after);
	else if (what == "ways")
		ways();
	else
		probed_mutants(difference, where);
	return 0;
}
