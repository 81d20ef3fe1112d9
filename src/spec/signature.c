/*
 * signature.c - HMAC over what a provider says it signs.
 *
 * Signatures are compared in constant time, all of them, before anything else
 * that came is looked at. A moment outside of the tolerance is told only to who
 * could sign it.
 */
#include "postgres.h"

#include "spec/signature.h"

#include "common/base64.h"
#include "common/cryptohash.h"
#include "common/hmac.h"
#include "common/sha1.h"
#include "common/sha2.h"
#include "lib/stringinfo.h"
#include "base/tree.h"
#include "utils/timestamp.h"

#define LONGEST_KEY 1024
#define MOST_SIGNATURES 16

const char *const signature_schemes[] = {"stripe", "standard", "github",
										 "square", "hmac",     NULL};
const char *const signature_hashes[] = {"sha256", "sha1", "sha512", NULL};
const char *const signature_encodings[] = {"hex", "base64", NULL};
const char *const signature_keys[] = {"raw", "base64", "hex", NULL};

enum
{
	HEX,
	BASE64
};

enum
{
	KEY_AS_IT_IS,
	KEY_IN_BASE64,
	KEY_IN_HEX
};

static const struct
{
	pg_cryptohash_type type;
	int                len;
} hashes[] = {{PG_SHA256, PG_SHA256_DIGEST_LENGTH},
			  {PG_SHA1, SHA1_DIGEST_LENGTH},
			  {PG_SHA512, PG_SHA512_DIGEST_LENGTH}};

/* In the order of signature_schemes. */
/* clang-format off */
static const Signature schemes[] = {
	{.header = "Stripe-Signature", .separator = ",", .prefix = "v1=", .timestamp = "item:t=",
	 .payload = "{timestamp}.{body}", .encoding = HEX, .key = KEY_AS_IT_IS},
	{.header = "webhook-signature", .separator = " ", .prefix = "v1,", .timestamp = "header:webhook-timestamp",
	 .id = "header:webhook-id", .payload = "{id}.{timestamp}.{body}", .encoding = BASE64, .key = KEY_IN_BASE64},
	{.header = "X-Hub-Signature-256", .prefix = "sha256=", .id = "header:X-GitHub-Delivery",
	 .payload = "{body}", .encoding = HEX, .key = KEY_AS_IT_IS},
	{.header = "x-square-hmacsha256-signature",
	 .payload = "{url}{body}", .encoding = BASE64, .key = KEY_AS_IT_IS},
	{.payload = "{body}", .encoding = HEX, .key = KEY_AS_IT_IS},
};
/* clang-format on */

#define TAKE(member) how->member = how->member ? how->member : scheme->member

void
signature_complete(Signature *how)
{
	const Signature *scheme = &schemes[how->scheme];

	TAKE(header);
	TAKE(separator);
	TAKE(prefix);
	TAKE(timestamp);
	TAKE(id);
	TAKE(payload);
	how->hash = how->hash < 0 ? scheme->hash : how->hash;
	how->encoding = how->encoding < 0 ? scheme->encoding : how->encoding;
	how->key = how->key < 0 ? scheme->key : how->key;
}

static bool
signs(const Signature *how, const char *name)
{
	return strstr(how->payload, name) != NULL;
}

const char *
signature_fault(const Signature *how)
{
	if (how->header == NULL)
		return "header must name where the signature stands";
	if (!signs(how, "{body}"))
		return "payload must have \"{body}\" in it";
	if (signs(how, "{url}") && how->url == NULL)
		return "url must be the address that the provider calls, byte for byte";
	if (signs(how, "{timestamp}") != (how->timestamp != NULL))
		return "timestamp must be in what is signed, and only then";
	if (signs(how, "{id}") && how->id == NULL)
		return "id must be \"header:NAME\" where it is signed";
	return NULL;
}

/* ----------------------------------------------------------------- headers */

char *
signature_header(Jsonb *headers, const char *name)
{
	JsonbIterator *it = JsonbIteratorInit(&headers->root);
	JsonbValue     v;
	int            token;
	bool           wanted = false;

	while ((token = JsonbIteratorNext(&it, &v, false)) != WJB_DONE)
	{
		if (token == WJB_KEY)
			wanted = v.val.string.len == strlen(name) &&
					 pg_strncasecmp(v.val.string.val, name, v.val.string.len) == 0;
		else if (wanted && (token == WJB_VALUE || token == WJB_ELEM) &&
				 v.type == jbvString)
			return pnstrdup(v.val.string.val, v.val.string.len);
	}
	return NULL;
}

/* The rest of the next item that begins with `prefix`, or NULL. `at` moves on. */
static char *
next_item(const Signature *how, const char **at, const char *prefix)
{
	size_t prefix_len = prefix ? strlen(prefix) : 0;

	while (*at != NULL)
	{
		const char *item = *at;
		const char *end = how->separator ? strstr(item, how->separator) : NULL;
		size_t      len = end ? end - item : strlen(item);

		*at = end ? end + strlen(how->separator) : NULL;
		while (len > 0 && *item == ' ')
		{
			item++;
			len--;
		}
		if (len >= prefix_len && strncmp(item, prefix ? prefix : "", prefix_len) == 0)
			return pnstrdup(item + prefix_len, len - prefix_len);
	}
	return NULL;
}

static const char *
behind(const char *text, const char *prefix)
{
	size_t len = strlen(prefix);

	return text && strncmp(text, prefix, len) == 0 ? text + len : NULL;
}

/* What "header:NAME" or "item:PREFIX" means here; NULL: it is not there. */
static char *
read_source(const Signature *how, const char *source, Jsonb *headers,
			const char *signatures)
{
	const char *name;

	if ((name = behind(source, "header:")) != NULL)
		return signature_header(headers, name);
	if ((name = behind(source, "item:")) != NULL)
		return next_item(how, &signatures, name);
	return NULL;
}

/* -------------------------------------------------------------------- HMAC */

static int
hex_digit(char c)
{
	static const char digits[] = "0123456789abcdef";
	const char       *p = c ? strchr(digits, pg_ascii_tolower((unsigned char) c)) : NULL;

	return p ? (int) (p - digits) : -1;
}

/* -1: not written so. */
static int
decode_hex(const char *text, uint8 *key)
{
	int n = 0;

	for (; text[0] != '\0' && n < LONGEST_KEY; text += 2)
	{
		int high = hex_digit(text[0]);
		int low = high < 0 ? -1 : hex_digit(text[1]);

		if (low < 0)
			return -1;
		key[n++] = high << 4 | low;
	}
	return *text ? -1 : n;
}

static int
read_key(const Signature *how, const char *secret, uint8 *key)
{
	int len;

	if (how->key == KEY_IN_HEX)
		return decode_hex(secret, key);
	if (how->key == KEY_IN_BASE64)
	{
		secret = behind(secret, "whsec_") ? secret + strlen("whsec_") : secret;
		return pg_b64_decode(secret, strlen(secret), (void *) key, LONGEST_KEY);
	}
	len = strlen(secret);
	if (len > LONGEST_KEY)
		return -1;
	memcpy(key, secret, len);
	return len;
}

static char *
encode(const Signature *how, const uint8 *digest, int len)
{
	static const char digits[] = "0123456789abcdef";
	int               room = how->encoding == BASE64 ? pg_b64_enc_len(len) : 2 * len;
	char             *text = palloc(room + 1);

	if (how->encoding == BASE64)
		room = pg_b64_encode((const void *) digest, len, text, room);
	else
	{
		for (int i = 0; i < len; i++)
		{
			text[2 * i] = digits[digest[i] >> 4];
			text[2 * i + 1] = digits[digest[i] & 15];
		}
	}
	if (room < 0)
		elog(ERROR, "a digest could not be encoded");
	text[room] = '\0';
	return text;
}

static char *
sign(const Signature *how, const uint8 *key, int key_len, StringInfo payload)
{
	uint8        digest[PG_SHA512_DIGEST_LENGTH];
	int          len = hashes[how->hash].len;
	pg_hmac_ctx *context = pg_hmac_create(hashes[how->hash].type);

	if (context == NULL || pg_hmac_init(context, key, key_len) < 0 ||
		pg_hmac_update(context, (uint8 *) payload->data, payload->len) < 0 ||
		pg_hmac_final(context, digest, len) < 0)
		elog(ERROR, "could not compute an HMAC");
	pg_hmac_free(context);
	return encode(how, digest, len);
}

/* ------------------------------------------------------------------- check */

static void
append_named(StringInfo out, const char *name, size_t len, const Signature *how,
			 const char *moment, const char *id, const char *body, size_t body_len)
{
	if (strncmp(name, "body", len) == 0)
		appendBinaryStringInfo(out, body, body_len);
	else if (strncmp(name, "timestamp", len) == 0)
		appendStringInfoString(out, moment);
	else if (strncmp(name, "id", len) == 0)
		appendStringInfoString(out, id);
	else if (strncmp(name, "url", len) == 0)
		appendStringInfoString(out, how->url);
}

static void
render(StringInfo out, const Signature *how, const char *moment, const char *id,
	   const char *body, size_t len)
{
	initStringInfo(out);
	for (const char *p = how->payload; *p != '\0'; p++)
	{
		const char *end = *p == '{' ? strchr(p, '}') : NULL;

		if (end == NULL)
			appendStringInfoChar(out, *p);
		else
		{
			append_named(out, p + 1, end - p - 1, how, moment, id, body, len);
			p = end;
		}
	}
}

/* Takes as long for a wrong signature as for the right one. */
static bool
same(const char *a, const char *b)
{
	size_t         len = strlen(b);
	unsigned char  differs = strlen(a) != len;
	volatile uint8 sum = differs;

	for (size_t i = 0; !differs && i < len; i++)
		sum |= (uint8) (a[i] ^ b[i]);
	return sum == 0;
}

static bool
is_among(const Signature *how, const char *signatures, const char *expected)
{
	bool        found = false;
	const char *at = signatures;
	char       *item;

	for (int i = 0; i < MOST_SIGNATURES; i++)
	{
		item = next_item(how, &at, how->prefix);
		if (item == NULL)
			break;
		found |= same(item, expected);
	}
	return found;
}

/* Seconds since 1970, as digits. */
static bool
is_recent(const Signature *how, const char *moment, TimestampTz now)
{
	int64 sent;
	int64 epoch = (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * SECS_PER_DAY;

	if (strlen(moment) > 12 || strspn(moment, "0123456789") != strlen(moment))
		return false;
	sent = (strtoll(moment, NULL, 10) - epoch) * USECS_PER_SEC;
	return sent >= now - how->tolerance && sent <= now + how->tolerance;
}

SignatureVerdict
signature_check(const Signature *how, const char *secret, Jsonb *headers,
				const char *body, size_t len, TimestampTz now)
{
	uint8          key[LONGEST_KEY];
	int            key_len = read_key(how, secret, key);
	char          *signatures = signature_header(headers, how->header);
	char          *moment = read_source(how, how->timestamp, headers, signatures);
	char          *id = read_source(how, how->id, headers, signatures);
	StringInfoData payload;
	bool           genuine;

	if (key_len <= 0)
		return SIGNATURE_NO_KEY;
	if (signatures == NULL || (how->timestamp && moment == NULL))
		return SIGNATURE_BAD;
	if (signs(how, "{id}") && id == NULL)
		return SIGNATURE_BAD;
	render(&payload, how, moment, id, body, len);
	genuine = is_among(how, signatures, sign(how, key, key_len, &payload));
	explicit_bzero(key, sizeof(key));
	if (!genuine)
		return SIGNATURE_BAD;
	return moment == NULL || is_recent(how, moment, now) ? SIGNATURE_GOOD
														 : SIGNATURE_STALE;
}
