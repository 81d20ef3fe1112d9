/*
 * answer.c - the bytes of an answer: its headers, and its body without what was put on
 * it for the way.
 *
 * We never ask for a coding, but caches and gateways send one all the same, and so do
 * servers that ask nobody. Read as it came, such a body is noise: an effect that is
 * confirmed in it would wait for a person, and a refusal's code would be seen by no rule.
 *
 *	  bytes --Content-Encoding--> bytes --charset--> UTF-8 --canon--> jsonb
 *
 * Invariants:
 *
 *  1. No more than `limit` bytes come out, however few went in: what goes on behind them
 *     is cut, as a long answer is.
 *  2. A body is decoded as a whole or not at all. A stream that ends too early, fails its
 *     check sum or has something behind its end leaves the bytes as they came, and
 *     says that its coding could not be undone.
 *  3. A header may be wrong, since clients that undo a coding leave its header there.
 *     So a body that reads as JSON as it came is read as it came.
 */
#include "postgres.h"

#include "spec/answer.h"

#include <zlib.h>

#include "base/canon.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/numeric.h"

/* One more on top of another is a way to keep us busy. */
#define MOST_CODINGS 4

#define LONGEST_WORD 16

/* What comes out of a stream is taken so many bytes at a time. */
#define CHUNK (32 * 1024)

/* For inflateInit2(): what stands around the compressed bytes. */
#define AROUND_GZIP (MAX_WBITS + 16)
#define AROUND_ZLIB MAX_WBITS
#define AROUND_NONE (-MAX_WBITS)

/* --------------------------------------------------------------- headers */

/* Where the value of the header in this line is; NULL: it is another line. */
static const char *
value_in(const char *line, size_t len, const char *name, size_t *value_len)
{
	size_t      name_len = strlen(name);
	const char *end = line + len;

	if (len <= name_len || line[name_len] != ':' ||
		pg_strncasecmp(line, name, name_len) != 0)
		return NULL;
	for (line += name_len + 1; line < end && (*line == ' ' || *line == '\t');)
		line++;
	while (end > line && (end[-1] == '\r' || end[-1] == ' ' || end[-1] == '\t'))
		end--;
	*value_len = end - line;
	return line;
}

/* The value of the next header of that name from *at on, which moves behind it. */
static const char *
next_value(const char **at, const char *end, const char *name, size_t *value_len)
{
	while (*at != NULL && *at < end)
	{
		const char *eol = memchr(*at, '\n', end - *at);
		const char *line = *at;
		const char *value = value_in(line, (eol ? eol : end) - line, name, value_len);

		*at = eol ? eol + 1 : end;
		if (value != NULL)
			return value;
	}
	return NULL;
}

char *
answer_header(const char *headers, size_t headers_len, const char *name)
{
	const char *at = headers;
	size_t      len;
	const char *value = next_value(&at, headers + headers_len, name, &len);

	return value ? pnstrdup(value, len) : NULL;
}

void
answer_unpack_headers(char *headers, size_t headers_len)
{
	static const char *const names[] = {"Content-Encoding", "Content-Type"};

	for (int i = 0; i < lengthof(names); i++)
	{
		const char *at = headers;
		const char *value;
		size_t      len;

		while ((value = next_value(&at, headers + headers_len, names[i], &len)) != NULL)
			memset(headers + (value - headers), '*', len);
	}
}

/* One line, whatever the value has in it. */
static void
put_line(StringInfo lines, const JsonbValue *name, const char *value, int value_len)
{
	int start = lines->len;

	appendBinaryStringInfo(lines, name->val.string.val, name->val.string.len);
	appendStringInfoString(lines, ": ");
	appendBinaryStringInfo(lines, value, value_len);
	for (int i = start; i < lines->len; i++)
	{
		if (lines->data[i] == '\r' || lines->data[i] == '\n')
			lines->data[i] = ' ';
	}
	appendStringInfoString(lines, "\r\n");
}

void
answer_put_headers(StringInfo lines, Jsonb *headers)
{
	JsonbIterator     *it = JsonbIteratorInit(&headers->root);
	JsonbValue         value;
	JsonbValue         name = {.type = jbvNull};
	JsonbIteratorToken token;

	while ((token = JsonbIteratorNext(&it, &value, false)) != WJB_DONE)
	{
		if (token == WJB_KEY)
			name = value;
		else if ((token != WJB_VALUE && token != WJB_ELEM) || name.type != jbvString)
			continue;
		else if (value.type == jbvString)
			put_line(lines, &name, value.val.string.val, value.val.string.len);
		else if (value.type == jbvNumeric)
		{
			char *digits = DatumGetCString(
				DirectFunctionCall1(numeric_out, NumericGetDatum(value.val.numeric)));

			put_line(lines, &name, digits, strlen(digits));
		}
	}
}

/* --------------------------------------------------------- content codings */

/* The codings of the body, in the order they were applied. More than can be undone:
 * the last one is "many". */
static int
codings_of(const char *headers, size_t headers_len, char **codings)
{
	const char *at = headers;
	const char *value;
	size_t      len;
	int         n = 0;

	while ((value = next_value(&at, headers + headers_len, "Content-Encoding", &len)) !=
		   NULL)
	{
		const char *end = value + len;

		while (value < end)
		{
			size_t word;

			while (value < end && (*value == ',' || *value == ' ' || *value == '\t'))
				value++;
			for (word = 0; value + word < end && value[word] != ',' &&
						   value[word] != ' ' && value[word] != '\t';)
				word++;
			if (word == 0 || (word == 8 && pg_strncasecmp(value, "identity", 8) == 0))
			{
				value += word;
				continue;
			}
			if (n == MOST_CODINGS)
			{
				codings[n - 1] = pstrdup("many");
				return n;
			}
			codings[n++] = pnstrdup(value, Min(word, LONGEST_WORD));
			value += word;
		}
	}
	return n;
}

static voidpf
allocate(voidpf opaque, uInt items, uInt size)
{
	return palloc_extended((Size) items * size, MCXT_ALLOC_NO_OOM);
}

static void
release(voidpf opaque, voidpf address)
{
	pfree(address);
}

/* Is there another stream behind the one that has ended? Streams may follow each other,
 * and the pages of a list are kept with a line feed between them. */
static bool
next_stream(z_stream *z, StringInfo out)
{
	static const char magic[] = {'\x1f', '\x8b'};
	uInt              skip = z->avail_in > 0 && *z->next_in == '\n' ? 1 : 0;

	if (z->avail_in < skip + sizeof(magic) ||
		memcmp(z->next_in + skip, magic, sizeof(magic)) != 0)
		return false;
	if (skip)
		appendStringInfoChar(out, '\n');
	z->next_in += skip;
	z->avail_in -= skip;
	return inflateReset(z) == Z_OK;
}

/* All of it, up to the limit. False: it is not whole, or not what it is called. */
static bool
expand(const char *data, size_t len, int around, size_t limit, StringInfo out, bool *cut)
{
	z_stream z = {.zalloc = allocate, .zfree = release};
	int      code = inflateInit2(&z, around);
	bool     whole = false;

	if (code != Z_OK)
		return false;
	z.next_in = (Bytef *) unconstify(char *, data);
	z.avail_in = (uInt) len;
	while (code == Z_OK && out->len <= limit)
	{
		uInt room = (uInt) Min(CHUNK, limit + 1 - out->len);

		enlargeStringInfo(out, room);
		z.next_out = (Bytef *) out->data + out->len;
		z.avail_out = room;
		code = inflate(&z, Z_NO_FLUSH);
		out->len += room - z.avail_out;
		whole = code == Z_STREAM_END && z.avail_in == 0;
		if (code == Z_STREAM_END && around == AROUND_GZIP && next_stream(&z, out))
			code = Z_OK;
	}
	inflateEnd(&z);
	*cut = out->len > limit;
	out->len = Min(out->len, limit);
	return whole || *cut;
}

static void
replace(Plain *plain, const StringInfoData *by)
{
	if (plain->is_copy)
		pfree(unconstify(char *, plain->data));
	plain->data = by->data;
	plain->len = by->len;
	plain->is_copy = true;
}

/* One coding is undone. False: it is another, or the bytes are not in it. */
static bool
undo(const char *coding, Plain *plain, size_t limit)
{
	static const struct
	{
		const char *name;
		int         around[2]; /* what is tried; 0: nothing */
	} known[] = {
		{"gzip", {AROUND_GZIP, 0}},
		{"x-gzip", {AROUND_GZIP, 0}},
		/* zlib by the standard, and bare by old habit */
		{"deflate", {AROUND_ZLIB, AROUND_NONE}},
	};

	for (int i = 0; i < lengthof(known); i++)
	{
		for (int j = 0; pg_strcasecmp(coding, known[i].name) == 0 &&
						j < lengthof(known[i].around) && known[i].around[j] != 0;
			 j++)
		{
			StringInfoData out;

			initStringInfo(&out);
			if (expand(plain->data, plain->len, known[i].around[j], limit, &out,
					   &plain->cut))
			{
				replace(plain, &out);
				return true;
			}
			pfree(out.data);
		}
	}
	return false;
}

/* As it may stand in a reason. */
static char *
word_of(char *coding)
{
	for (char *c = coding; *c != '\0'; c++)
	{
		*c = pg_ascii_tolower((unsigned char) *c);
		if (!((*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9') || *c == '-'))
			return pstrdup("other");
	}
	return coding;
}

static void
undo_codings(const char *headers, size_t headers_len, Plain *plain, size_t limit)
{
	char *codings[MOST_CODINGS];
	int   n = codings_of(headers, headers_len, codings);

	while (n > 0 && !plain->cut && undo(codings[n - 1], plain, limit))
		n--;
	if (n > 0 && !plain->cut)
		plain->coding = word_of(codings[n - 1]);
}

/* --------------------------------------------------------------- charset */

static bool
says_utf16(const char *headers, size_t headers_len)
{
	char *type = answer_header(headers, headers_len, "Content-Type");

	for (char *p = type; p != NULL && (p = strchr(p, ';')) != NULL;)
	{
		p += 1 + strspn(p + 1, " \t");
		if (pg_strncasecmp(p, "charset=", 8) == 0)
		{
			p += 8 + strspn(p + 8, "\"");
			return pg_strncasecmp(p, "utf-16", 6) == 0 ||
				   pg_strncasecmp(p, "utf16", 5) == 0;
		}
	}
	return false;
}

/* Which of the two bytes of a unit comes first: the mark says it; else the zero beside
 * the first letter, for JSON begins with one that ASCII has. False: it is no UTF-16. */
static bool
byte_order(const Plain *plain, bool said, bool *big, size_t *mark)
{
	const unsigned char *p = (const unsigned char *) plain->data;

	*mark = 0;
	if (plain->len < 2)
		return false;
	if ((p[0] == 0xfe && p[1] == 0xff) || (p[0] == 0xff && p[1] == 0xfe))
	{
		*big = p[0] == 0xfe;
		*mark = 2;
		return true;
	}
	*big = p[0] == 0;
	return said && (p[0] == 0) != (p[1] == 0);
}

static pg_wchar
unit_at(const char *data, size_t i, bool big)
{
	unsigned char a = (unsigned char) data[i];
	unsigned char b = (unsigned char) data[i + 1];

	return big ? a << 8 | b : b << 8 | a;
}

/* UTF-16 becomes UTF-8; half a pair becomes U+FFFD. */
static void
convert(const char *headers, size_t headers_len, Plain *plain)
{
	StringInfoData out;
	bool           big;
	size_t         i;

	if (!byte_order(plain, says_utf16(headers, headers_len), &big, &i))
		return;
	initStringInfo(&out);
	for (; i + 1 < plain->len; i += 2)
	{
		unsigned char text[8];
		pg_wchar      c = unit_at(plain->data, i, big);
		pg_wchar      next = i + 3 < plain->len ? unit_at(plain->data, i + 2, big) : 0;

		if (is_utf16_surrogate_first(c) && is_utf16_surrogate_second(next))
		{
			c = surrogate_pair_to_codepoint(c, next);
			i += 2;
		}
		else if (is_utf16_surrogate_first(c) || is_utf16_surrogate_second(c))
			c = 0xfffd;
		unicode_to_utf8(c, text);
		appendBinaryStringInfo(&out, (char *) text, pg_utf_mblen(text));
	}
	replace(plain, &out);
}

/* ---------------------------------------------------------------- the body */

/* Headers of several pages stand behind each other: those of the last one count. */
static const char *
last_answer(const char *headers, size_t headers_len)
{
	static const char begin[] = "\nHTTP/";
	const char       *last = headers;
	const char       *p = headers;

	while (p != NULL &&
		   (p = memmem(p, headers + headers_len - p, begin, strlen(begin))) != NULL)
		last = ++p;
	return last;
}

Plain
answer_plain(const char *headers, size_t headers_len, const char *body, size_t body_len,
			 size_t limit)
{
	Plain       plain = {.data = body, .len = body_len};
	const char *last = last_answer(headers, headers_len);

	if (body_len == 0)
		return plain;
	headers_len -= last - headers;
	headers = last;
	undo_codings(headers, headers_len, &plain, limit);
	if (plain.coding == NULL)
		convert(headers, headers_len, &plain);
	return plain;
}

AnswerBody
answer_read(const Evidence *e, size_t limit)
{
	AnswerBody body = {.fault = "unreadable"};
	Plain plain = answer_plain(e->headers, e->headers_len, e->body, e->body_len, limit);

	if (e->cut || plain.cut)
	{
		body.hidden = true;
		body.fault = "cut";
		return body;
	}
	body.empty = plain.len == 0;
	body.json = canon_read_json(plain.data, plain.len);
	if (body.empty)
		body.fault = "empty_body";
	else if (body.json == NULL && plain.coding != NULL)
	{
		body.hidden = true;
		body.fault = psprintf("encoding_%s", plain.coding);
	}
	if (plain.is_copy)
		pfree(unconstify(char *, plain.data));
	return body;
}
