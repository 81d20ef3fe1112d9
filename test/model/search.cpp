#include "search.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace
{

const u32 NONE = UINT32_MAX;

/* An array that may grow to `room` without moving: address space costs nothing. */
template <class T>
class Growing
{
  public:
	explicit Growing(u64 room) : bytes(room * sizeof(T))
	{
		void *where = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
		                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (where == MAP_FAILED)
		{
			perror("model: mmap");
			exit(2);
		}
		at = static_cast<T *>(where);
	}
	~Growing() { munmap(at, bytes); }
	Growing(const Growing &) = delete;
	Growing &operator=(const Growing &) = delete;
	T &operator[](u64 i) { return at[i]; }

  private:
	T  *at;
	u64 bytes;
};

/* An edge: the index it leads to, and its class in the two upper bits. */
const u32 INDEX = (1u << 30) - 1;

class Graph
{
  public:
	explicit Graph(const Scenario &scenario);
	Outcome explore();

  private:
	const Scenario s;
	Actors         actors;
	Outcome        result;
	u64            limit;
	int            words; /* of a packed world */
	Growing<u64>   worlds;
	Growing<u32>   parent;
	Growing<u64>   first_edge;
	Growing<u32>   edges;
	std::vector<u32>  table; /* open addressing; NONE is free */
	std::vector<Step> next;
	u32               count = 0;
	u64               edge_count = 0;

	Packed packed(u32 i);
	u64    hash(const u64 *w) const;
	bool   same(const u64 *a, const u64 *b) const;
	u32    add(const Packed &p, u32 from);
	void   rehash();
	bool   expand(u32 i);
	void   tell(u32 last, const Step *violation);
	void   every_end_reachable();
	void   no_circles();
	bool   restless(u32 i);
	void   component(const std::vector<u32> &members, const std::vector<u32> &low);
};

Graph::Graph(const Scenario &scenario)
	: s(scenario), actors(scenario), limit((u64) scenario.limit * 1000000),
	  words(4 + (scenario.backup != 0) + (scenario.moves != 0)), worlds(limit * words + 1000),
	  parent(limit + 1000), first_edge(limit + 1000), edges(limit * 40),
	  table(1 << 16, NONE)
{
}

Packed
Graph::packed(u32 i)
{
	Packed p = {};

	memcpy(p.word, &worlds[(u64) i * words], words * sizeof(u64));
	return p;
}

u64
Graph::hash(const u64 *w) const
{
	u64 h = 0x9E3779B97F4A7C15ull;

	for (int i = 0; i < words; i++)
	{
		h ^= w[i];
		h *= 0xD6E8FEB86659FD93ull;
		h ^= h >> 32;
	}
	return h * 0xD6E8FEB86659FD93ull >> 20;
}

bool
Graph::same(const u64 *a, const u64 *b) const
{
	u64 difference = 0;

	for (int i = 0; i < words; i++)
		difference |= a[i] ^ b[i];
	return difference == 0;
}

void
Graph::rehash()
{
	u64 size = table.size() * 2;

	std::vector<u32>().swap(table);
	table.assign(size, NONE);
	for (u32 i = 0; i < count; i++)
	{
		u64 at = hash(&worlds[(u64) i * words]) & (size - 1);

		while (table[at] != NONE)
			at = (at + 1) & (size - 1);
		table[at] = i;
	}
}

/* The index of a world, new or known. */
u32
Graph::add(const Packed &p, u32 from)
{
	u64 at = hash(p.word) & (table.size() - 1);

	for (; table[at] != NONE; at = (at + 1) & (table.size() - 1))
	{
		if (same(&worlds[(u64) table[at] * words], p.word))
			return table[at];
	}
	memcpy(&worlds[(u64) count * words], p.word, words * sizeof(u64));
	parent[count] = from;
	table[at] = count++;
	if ((u64) count * 5 > table.size() * 3)
		rehash();
	return count - 1;
}

/* False: a property does not hold, and the story is told. */
bool
Graph::expand(u32 i)
{
	World w = unpack(packed(i));

	next.clear();
	actors.steps(w, &next);
	first_edge[i] = edge_count;
	for (const Step &step : next)
	{
		if (step.bad)
		{
			const Step last = step;

			result.bad = last.bad;
			tell(i, &last);
			return false;
		}

		u32 to = add(step.to, i);

		if (s.live)
			edges[edge_count++] = to | (u32) step.kind << 30;
		result.steps++;
	}
	first_edge[i + 1] = edge_count;
	return true;
}

/* The shortest way to world `last`, one line a step. */
void
Graph::tell(u32 last, const Step *violation)
{
	std::vector<u32>         way;
	std::vector<std::string> said;

	for (u32 i = last; i != NONE; i = parent[i])
		way.push_back(i);
	std::reverse(way.begin(), way.end());
	result.story.push_back("   0. " + actors.picture(unpack(packed(way[0]))));
	for (size_t n = 0; n < way.size(); n++)
	{
		Packed to = n + 1 < way.size() ? packed(way[n + 1])
			: violation ? violation->to
			            : packed(last);
		bool at_end = n + 1 == way.size();

		if (at_end && !violation)
			break;
		next.clear();
		said.clear();
		actors.steps(unpack(packed(way[n])), &next, &said);
		for (size_t k = 0; k < next.size(); k++)
		{
			char number[32];

			if (memcmp(&next[k].to, &to, sizeof to) != 0 || (at_end && !next[k].bad))
				continue;
			snprintf(number, sizeof number, "%4zu. ", n + 1);
			result.story.push_back(number + said[k]);
			result.story.push_back("        " + actors.picture(unpack(to)));
			break;
		}
	}
}

/* Backwards from the ends, by sweeps over the worlds in reverse order. */
void
Graph::every_end_reachable()
{
	std::vector<bool> good(count, false);
	bool              changed = true;

	for (u32 i = 0; i < count; i++)
	{
		World w = unpack(packed(i));

		good[i] = actors.ended(w) || (!s.people && actors.waits_for_person(w));
	}
	while (changed)
	{
		changed = false;
		for (u32 i = count; i-- > 0;)
		{
			for (u64 e = first_edge[i]; !good[i] && e < first_edge[i + 1]; e++)
			{
				if (good[edges[e] & INDEX])
					good[i] = changed = true;
			}
		}
	}
	for (u32 i = 0; i < count; i++)
	{
		if (!good[i])
		{
			result.bad = "L1: no end can be reached any more";
			tell(i, nullptr);
			return;
		}
	}
}

bool
Graph::restless(u32 i)
{
	World w = unpack(packed(i));

	return !actors.ended(w) && !actors.waits_for_person(w);
}

/* A circle in which time passes, without people and crashes, and with every
 * worker doing what it has to do, must rest in an end or wait for a person. */
void
Graph::component(const std::vector<u32> &members, const std::vector<u32> &low)
{
	bool clock = false;

	for (u32 i : members)
	{
		for (u64 e = first_edge[i]; !clock && e < first_edge[i + 1]; e++)
			clock = edges[e] >> 30 == CLOCK &&
				low[edges[e] & INDEX] == low[members[0]];
	}
	if (!clock)
		return;
	for (u32 i : members)
	{
		if (restless(i))
		{
			result.bad = "L2: the machine goes round in circles";
			tell(i, nullptr);
			return;
		}
	}
}

/* Tarjan, without recursion. After it, low[] of a finished world is the number
 * of its component. */
void
Graph::no_circles()
{
	struct Frame
	{
		u32 world;
		u64 edge;
	};
	const u32          DONE = 1u << 31;
	std::vector<u32>   low(count, 0), order(count, 0), stack, members;
	std::vector<Frame> calls;
	u32                clock = 0, components = 0;

	for (u32 root = 0; root < count && result.bad.empty(); root++)
	{
		if (order[root] != 0)
			continue;
		calls.push_back({root, first_edge[root]});
		order[root] = low[root] = ++clock;
		stack.push_back(root);
		while (!calls.empty() && result.bad.empty())
		{
			Frame &f = calls.back();
			u32    i = f.world;

			if (f.edge < first_edge[i + 1])
			{
				u32 edge = edges[f.edge++], to = edge & INDEX;

				if (edge >> 30 == REST)
					continue;
				if (order[to] == 0)
				{
					order[to] = low[to] = ++clock;
					stack.push_back(to);
					calls.push_back({to, first_edge[to]});
				}
				else if (!(low[to] & DONE))
					low[i] = std::min(low[i], order[to]);
				continue;
			}
			calls.pop_back();
			if (!calls.empty())
				low[calls.back().world] = std::min(low[calls.back().world], low[i]);
			if (low[i] != order[i])
				continue;
			members.clear();
			do
			{
				members.push_back(stack.back());
				low[stack.back()] = DONE | components;
				stack.pop_back();
			} while (members.back() != i);
			components++;
			component(members, low);
		}
	}
}

Outcome
Graph::explore()
{
	u32 level_end;

	add(pack(actors.first()), NONE);
	level_end = count;
	for (u32 i = 0; i < count; i++)
	{
		if (i == level_end)
		{
			result.depth++;
			level_end = count;
		}
		if (count >= limit)
		{
			result.cut = true;
			break;
		}
		if (!expand(i))
			break;
	}
	result.states = count;
	if (!s.live || result.cut || !result.bad.empty())
		return result;
	std::vector<u32>().swap(table);
	every_end_reachable();
	if (result.bad.empty())
		no_circles();
	return result;
}

} // namespace

Outcome
search(const Scenario &s)
{
	Graph graph(s);

	return graph.explore();
}
