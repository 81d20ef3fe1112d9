/*
 * canon.c - one form for one meaning; and JSON from bytes that may be anything.
 *
 * Invariants:
 *
 *  1. Two jsonb values are equal if and only if their canonical texts are. Keys
 *     stand in the order of their code points, which is that of UTF-8's bytes.
 *  2. canon_marker_generation() is the exact inverse of canon_marker(). The
 *     namespace stands in front exactly as given, without a separator: let it
 *     end in one ("shop:"), or two namespaces of which one begins with the other
 *     could write the same marker for different op ids.
 *  3. Different markers have different keys, as surely as sha256 does: a key
 *     that is kept as it is never looks like one that was mapped.
 *  4. canon_read_json() raises nothing, whatever the bytes say: what is too deep or
 *     too large is refused and what cannot be text is mended before the parser
 *     runs, and what it does not take is no JSON.
 *
 * The database is UTF-8 (CREATE EXTENSION sees to it), so text is.
 */
#include "base/canon.h"

#include <limits.h>

#include "common/cryptohash.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "base/scan.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/numeric.h"

/* What a key may be where no limit is stated. */
#define KEY_MAX_DEFAULT 255

/* What JSON from outside may be; the parsers bear more, but not everything. */
#define MAX_DEPTH 128
#define MAX_NUMBER 400
#define MAX_EXPONENT_DIGITS 3

#define REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */

static void append_container(StringInfo out, JsonbContainer *container);

/* --------------------------------------------------------- canonical JSON */

/* Do these eight bytes stand for themselves? A subtraction in all of them at once
 * borrows a high bit where a byte was smaller: below blank, or zero. */
static bool
eight_unescaped(const char *p)
{
	const uint64 each = UINT64CONST(0x0101010101010101);
	uint64       bytes, quote, backslash;

	memcpy(&bytes, p, sizeof(bytes));
	quote = bytes ^ each * '"';
	backslash = bytes ^ each * '\\';
	return ((((bytes - each * 0x20) & ~bytes) | ((quote - each) & ~quote) |
			 ((backslash - each) & ~backslash)) &
			each << 7) == 0;
}

/* How many bytes from here on stand for themselves. */
static size_t
unescaped(const char *text, const char *end)
{
	const char *p = text;

	while (end - p >= 8 && eight_unescaped(p))
		p += 8;
	while (p < end && (unsigned char) *p >= 0x20 && *p != '"' && *p != '\\')
		p++;
	return p - text;
}

void
canon_json_string(StringInfo out, const char *text, size_t len)
{
	static const char plain[] = "\b\f\n\r\t\"\\";
	static const char letter[] = "bfnrt\"\\";
	const char       *end = text + len;

	appendStringInfoChar(out, '"');
	while (text < end)
	{
		size_t      run = unescaped(text, end);
		const char *found;

		appendBinaryStringInfo(out, text, run);
		text += run;
		if (text == end)
			break;
		found = *text ? strchr(plain, *text) : NULL;
		appendStringInfoChar(out, '\\');
		if (found)
			appendStringInfoChar(out, letter[found - plain]);
		else
			appendStringInfo(out, "u%04x", (unsigned char) *text);
		text++;
	}
	appendStringInfoChar(out, '"');
}

static void
append_value(StringInfo out, const JsonbValue *value)
{
	switch (value->type)
	{
		case jbvNull:
			appendStringInfoString(out, "null");
			break;
		case jbvBool:
			appendStringInfoString(out, value->val.boolean ? "true" : "false");
			break;
		case jbvNumeric:
			/* all digits, no exponent, no zeros behind the last one that counts */
			appendStringInfoString(out, numeric_normalize(value->val.numeric));
			break;
		case jbvString:
			canon_json_string(out, value->val.string.val, value->val.string.len);
			break;
		case jbvBinary:
			append_container(out, value->val.binary.data);
			break;
		default:
			elog(ERROR, "unexpected jsonb value of type %d", (int) value->type);
	}
}

static int
compare_keys(const void *a, const void *b)
{
	const JsonbValue *x = &((const JsonbPair *) a)->key;
	const JsonbValue *y = &((const JsonbPair *) b)->key;
	int               order;

	order = memcmp(x->val.string.val, y->val.string.val,
				   Min(x->val.string.len, y->val.string.len));
	return order ? order : x->val.string.len - y->val.string.len;
}

/* jsonb keeps short keys first; we want the order of code points. */
static void
append_object(StringInfo out, JsonbContainer *container)
{
	uint32         n = 0;
	JsonbPair     *pairs = palloc(sizeof(JsonbPair) * (JsonContainerSize(container) + 1));
	JsonbIterator *it = JsonbIteratorInit(container);
	JsonbValue     value;
	JsonbIteratorToken token;

	while ((token = JsonbIteratorNext(&it, &value, true)) != WJB_DONE)
	{
		if (token == WJB_KEY)
			pairs[n].key = value;
		else if (token == WJB_VALUE)
			pairs[n++].value = value;
	}
	qsort(pairs, n, sizeof(JsonbPair), compare_keys);

	appendStringInfoChar(out, '{');
	for (uint32 i = 0; i < n; i++)
	{
		if (i > 0)
			appendStringInfoChar(out, ',');
		append_value(out, &pairs[i].key);
		appendStringInfoChar(out, ':');
		append_value(out, &pairs[i].value);
	}
	appendStringInfoChar(out, '}');
	pfree(pairs);
}

static void
append_array(StringInfo out, JsonbContainer *container)
{
	JsonbIterator     *it = JsonbIteratorInit(container);
	JsonbValue         value;
	JsonbIteratorToken token;
	bool               first = true;

	appendStringInfoChar(out, '[');
	while ((token = JsonbIteratorNext(&it, &value, true)) != WJB_DONE)
	{
		if (token != WJB_ELEM)
			continue;
		if (!first)
			appendStringInfoChar(out, ',');
		append_value(out, &value);
		first = false;
	}
	appendStringInfoChar(out, ']');
}

static void
append_container(StringInfo out, JsonbContainer *container)
{
	JsonbValue scalar;

	check_stack_depth();
	if (JsonbExtractScalar(container, &scalar))
		append_value(out, &scalar);
	else if (JsonContainerIsObject(container))
		append_object(out, container);
	else
		append_array(out, container);
}

void
canon_json(StringInfo out, Jsonb *json)
{
	append_container(out, &json->root);
}

/* ---------------------------------------------------------------- digests */

void
canon_sha256(const void *data, size_t len, uint8 digest[CANON_DIGEST_LEN])
{
	pg_cryptohash_ctx *ctx = pg_cryptohash_create(PG_SHA256);

	if (ctx == NULL || pg_cryptohash_init(ctx) < 0 ||
		pg_cryptohash_update(ctx, data, len) < 0 ||
		pg_cryptohash_final(ctx, digest, CANON_DIGEST_LEN) < 0)
		elog(ERROR, "could not compute sha256: %s", pg_cryptohash_error(ctx));
	pg_cryptohash_free(ctx);
}

char *
canon_hex(const uint8 *bytes, size_t len)
{
	char *hex = palloc(2 * len + 1);

	hex[hex_encode((const char *) bytes, len, hex)] = '\0';
	return hex;
}

/* ------------------------------------------------------- markers and keys */

char *
canon_marker(const char *name_space, const char *op_id, int generation)
{
	if (name_space == NULL)
		name_space = "";
	if (generation <= 1)
		return psprintf("%s%s", name_space, op_id);
	return psprintf("%s%s~%d", name_space, op_id, generation);
}

/* The text behind `prefix`, NULL when it does not begin with it. */
static const char *
behind(const char *text, const char *prefix)
{
	size_t len = strlen(prefix);

	return strncmp(text, prefix, len) == 0 ? text + len : NULL;
}

int
canon_marker_generation(const char *marker, const char *name_space, const char *op_id)
{
	const char *p = behind(marker, name_space ? name_space : "");
	int64       generation = 0;

	if (p)
		p = behind(p, op_id);
	if (p == NULL)
		return 0;
	if (*p == '\0')
		return 1;
	if (*p++ != '~' || *p == '0')
		return 0;
	for (; *p >= '0' && *p <= '9' && generation <= INT_MAX; p++)
		generation = generation * 10 + (*p - '0');
	if (*p != '\0' || generation < 2 || generation > INT_MAX)
		return 0;
	return (int) generation;
}

/* The digest in hex, as much of it as the provider takes. */
static char *
mapped_key(const char *marker, int max)
{
	uint8 digest[CANON_DIGEST_LEN];
	char *hex;

	canon_sha256(marker, strlen(marker), digest);
	hex = canon_hex(digest, CANON_DIGEST_LEN);
	if (max < 2 * CANON_DIGEST_LEN)
		hex[Max(max, 0)] = '\0';
	return hex;
}

static bool
looks_mapped(const char *marker, int max)
{
	size_t len = strlen(marker);

	return len == Min(max, 2 * CANON_DIGEST_LEN) &&
		   strspn(marker, "0123456789abcdefABCDEF") == len;
}

/* Is every byte one of `first` .. '~'? */
static bool
printable_ascii(const char *text, unsigned char first)
{
	for (; *text; text++)
		if ((unsigned char) *text < first || (unsigned char) *text > '~')
			return false;
	return true;
}

/* Providers take 1 to 255 printable characters; many refuse blanks. */
static char *
raw_key(char *marker, int max)
{
	if (strlen(marker) <= max && printable_ascii(marker, '!') &&
		!looks_mapped(marker, max))
		return marker;
	return mapped_key(marker, max);
}

/* A string of RFC 8941; the quotes and backslashes count. */
static char *
quoted_key(const char *marker, int max)
{
	StringInfoData out;

	initStringInfo(&out);
	appendStringInfoChar(&out, '"');
	for (const char *p = marker; *p; p++)
	{
		if (*p == '"' || *p == '\\')
			appendStringInfoChar(&out, '\\');
		appendStringInfoChar(&out, *p);
	}
	appendStringInfoChar(&out, '"');
	if (out.len <= max && printable_ascii(marker, ' ') && !looks_mapped(marker, max - 2))
		return out.data;
	return psprintf("\"%s\"", mapped_key(marker, max - 2));
}

/* Of version 4 in shape: many providers check that. */
static char *
uuid_key(const char *marker)
{
	uint8 digest[CANON_DIGEST_LEN];
	char *hex;

	canon_sha256(marker, strlen(marker), digest);
	digest[6] = (digest[6] & 0x0f) | 0x40;
	digest[8] = (digest[8] & 0x3f) | 0x80;
	hex = canon_hex(digest, 16);
	return psprintf("%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16,
					hex + 20);
}

char *
canon_key(KeyFormat format, int max, const char *name_space, const char *op_id,
		  int generation)
{
	char *marker = canon_marker(name_space, op_id, generation);

	if (max <= 0)
		max = KEY_MAX_DEFAULT;
	switch (format)
	{
		case KEY_RAW:
			return raw_key(marker, max);
		case KEY_QUOTED:
			return quoted_key(marker, max);
		case KEY_UUID:
			return uuid_key(marker);
		case KEY_SHA256:
			return mapped_key(marker, max);
	}
	elog(ERROR, "unknown key format %d", (int) format);
	return NULL; /* keep the compiler quiet */
}

/* ----------------------------------------------------------------- op ids */

typedef struct Range
{
	pg_wchar first;
	pg_wchar last;
} Range;

/* White space at the ends of an id is a slip: two ids that look the same. */
static const Range Blanks[] = {{0x09, 0x0d},     {0x20, 0x20},     {0x85, 0x85},
							   {0xa0, 0xa0},     {0x1680, 0x1680}, {0x2000, 0x200a},
							   {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f},
							   {0x3000, 0x3000}};

/* Controls, line ends, and what is invisible or turns the direction of text.
 * The joiners U+200C and U+200D stay: scripts and emoji need them. */
static const Range Unprintable[] = {{0x00, 0x1f},     {0x7f, 0x9f},     {0xad, 0xad},
									{0x200b, 0x200b}, {0x200e, 0x200f}, {0x2028, 0x202e},
									{0x2060, 0x206f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb},
									{0xfffe, 0xffff}};

static bool
in_ranges(pg_wchar c, const Range *ranges, int n)
{
	for (int i = 0; i < n; i++)
		if (c >= ranges[i].first && c <= ranges[i].last)
			return true;
	return false;
}

static bool
is_blank(const char *character)
{
	return in_ranges(utf8_to_unicode((const unsigned char *) character), Blanks,
					 lengthof(Blanks));
}

/* The last character of valid text that ends before `end`. */
static const char *
last_character(const char *end)
{
	do
		end--;
	while (((unsigned char) *end & 0xc0) == 0x80);
	return end;
}

/* "~" and digits at the end are how a marker names a generation. */
static bool
ends_like_generation(const char *text, size_t len)
{
	size_t digits = 0;

	while (digits < len && text[len - 1 - digits] >= '0' && text[len - 1 - digits] <= '9')
		digits++;
	return digits > 0 && digits < len && text[len - 1 - digits] == '~';
}

const char *
canon_op_id_fault(const char *op_id)
{
	size_t len = strlen(op_id);
	int    characters = 0;

	if (len == 0)
		return "is empty";
	if (!pg_verify_mbstr(PG_UTF8, op_id, len, true))
		return "is not valid UTF-8";
	for (const char *p = op_id; *p; p += pg_utf_mblen((const unsigned char *) p))
	{
		if (in_ranges(utf8_to_unicode((const unsigned char *) p), Unprintable,
					  lengthof(Unprintable)))
			return "contains a character that is not printable";
		characters++;
	}
	if (characters > CANON_OP_ID_MAX)
		return "is longer than " CppAsString2(CANON_OP_ID_MAX) " characters";
	if (is_blank(op_id) || is_blank(last_character(op_id + len)))
		return "begins or ends with a blank";
	if (ends_like_generation(op_id, len))
		return "ends in \"~\" and digits, which name a generation";
	return NULL;
}

char *
canon_trim(const char *text)
{
	const char *end = text + strlen(text);

	while (*text && is_blank(text))
		text += pg_utf_mblen((const unsigned char *) text);
	while (end > text && is_blank(last_character(end)))
		end = last_character(end);
	return pnstrdup(text, end - text);
}

/* --------------------------------------------------------- hostile bodies */

/* One U+FFFD for a byte that is no text, NUL among them, and the rest of its
 * character. */
char *
canon_lossy_text(const char *data, size_t len)
{
	const unsigned char *p = (const unsigned char *) data;
	const unsigned char *end = p + len;
	StringInfoData       out;

	initStringInfo(&out);
	while (p < end)
	{
		int n =
			pg_encoding_verifymbchar(PG_UTF8, (const char *) p, (int) Min(end - p, 4));

		if (n > 0)
		{
			appendBinaryStringInfo(&out, (const char *) p, n);
			p += n;
			continue;
		}
		appendStringInfoString(&out, REPLACEMENT);
		n = pg_utf_mblen(p++);
		while (--n > 0 && p < end && (*p & 0xc0) == 0x80)
			p++;
	}
	return out.data;
}

/* The value of four hex digits, -1 if they are not there. */
static int
hex4(const char *p, const char *end)
{
	int value = 0;

	if (end - p < 4)
		return -1;
	for (int i = 0; i < 4; i++)
	{
		const char *digits = "0123456789abcdef";
		const char *found =
			p[i] ? strchr(digits, pg_ascii_tolower((unsigned char) p[i])) : NULL;

		if (found == NULL)
			return -1;
		value = value * 16 + (int) (found - digits);
	}
	return value;
}

/* "\uXXXX" at p: what jsonb cannot hold becomes U+FFFD, in the same place.
 * Returns how far the escape reaches. */
static int
mend_escape(char *p, const char *end)
{
	int unit = hex4(p + 2, end);
	int next = -1;

	if (unit < 0)
		return 2; /* the parser refuses it */
	if (unit >= 0xd800 && unit <= 0xdbff && end - p >= 12 && p[6] == '\\' && p[7] == 'u')
		next = hex4(p + 8, end);
	if (next >= 0xdc00 && next <= 0xdfff)
		return 12;
	if (unit == 0 || (unit >= 0xd800 && unit <= 0xdfff))
		memcpy(p + 2, "fffd", 4);
	return 6;
}

/* From the opening quote to behind the closing one. */
static char *
mend_string(char *p, char *end)
{
	for (p++; p < end && *p != '"';)
	{
		if (*p != '\\' || end - p < 2)
			p++;
		else if (p[1] == 'u')
			p += mend_escape(p, end);
		else
			p += 2;
	}
	return p < end ? p + 1 : end;
}

/* How long the number at p is; 0: too long or too large for numeric. */
static size_t
number_length(const char *p)
{
	size_t len = strspn(p, "+-.0123456789");
	size_t digits;

	if (p[len] == 'e' || p[len] == 'E')
	{
		len++;
		len += strspn(p + len, "+-");
		digits = strspn(p + len, "0123456789");
		len += digits;
		if (digits > MAX_EXPONENT_DIGITS)
			return 0;
	}
	return len <= MAX_NUMBER ? len : 0;
}

/* Mends strings, and answers whether depth and numbers are bearable. It reads
 * as the parser does up to the first error, and there the parser stops. */
static bool
tame(char *text, size_t len)
{
	char *end = text + len;
	int   depth = 0;

	for (char *p = text; p < end;)
	{
		size_t n = 1;

		if (*p == '"')
		{
			p = mend_string(p, end);
			continue;
		}
		if (*p == '-' || (*p >= '0' && *p <= '9'))
			n = number_length(p);
		else if (*p == '{' || *p == '[')
			depth++;
		else if (*p == '}' || *p == ']')
			depth--;
		if (n == 0 || depth > MAX_DEPTH)
			return false;
		p += n;
	}
	return true;
}

Jsonb *
canon_read_json(const char *data, size_t len)
{
	char  *text;
	char  *fault;
	Jsonb *json = NULL;

	if (data == NULL || len > CANON_JSON_MAX)
		return NULL;
	if (len >= 3 && memcmp(data, "\xEF\xBB\xBF", 3) == 0)
	{
		data += 3;
		len -= 3;
	}
	if (pg_verifymbstr(data, (int) len, true))
		text = pnstrdup(data, len);
	else
		text = canon_lossy_text(data, len);
	if (tame(text, strlen(text)))
		json = scan_json(text, &fault);
	pfree(text);
	return json;
}
