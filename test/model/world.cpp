#include "world.h"

#include <cstdio>
#include <cstdlib>

namespace
{

struct Writer
{
	Packed  *p;
	unsigned at = 0;
	unsigned too_wide = 0; /* the bits of a value that do not fit its field */

	__attribute__((always_inline)) void
	operator()(u8 value, unsigned bits)
	{
		unsigned word = at >> 6, shift = at & 63;

		too_wide |= value >> bits;
		p->word[word] |= (u64) value << shift;
		if (shift + bits > 64)
			p->word[word + 1] |= (u64) value >> (64 - shift);
		at += bits;
	}
};

struct Reader
{
	const Packed *p;
	unsigned at = 0;

	__attribute__((always_inline)) void
	operator()(u8 &value, unsigned bits)
	{
		unsigned word = at >> 6, shift = at & 63;
		u64      v = p->word[word] >> shift;

		if (shift + bits > 64)
			v |= p->word[word + 1] << (64 - shift);
		value = (u8) (v & ((1u << bits) - 1));
		at += bits;
	}
};

} // namespace

Packed
pack(const World &w)
{
	Packed p = {};
	Writer f = {&p};

	world_fields(w, f);
	if (f.too_wide)
	{
		fprintf(stderr, "model: a value does not fit its field\n");
		abort();
	}
	return p;
}

World
unpack(const Packed &p)
{
	World  w;
	Reader f = {&p};

	memset(&w, 0, sizeof w);
	world_fields(w, f);
	return w;
}
