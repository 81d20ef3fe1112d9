/*
 * canon.h - one form for one meaning: canonical JSON, digests, keys, markers;
 * and JSON read from bytes that may be anything.
 */
#ifndef OPL_CANON_H
#define OPL_CANON_H

#include "postgres.h"

#include "lib/stringinfo.h"
#include "utils/jsonb.h"

#define CANON_DIGEST_LEN 32

/* An op id is at most so many characters. */
#define CANON_OP_ID_MAX 200

/* A longer body is not read as JSON: its jsonb could outgrow what one may be. */
#define CANON_JSON_MAX (16 * 1024 * 1024)

typedef enum KeyFormat
{
	KEY_RAW,    /* the marker itself */
	KEY_QUOTED, /* a structured-field string: "..." */
	KEY_UUID,   /* version-4 shaped, derived */
	KEY_SHA256  /* hex */
} KeyFormat;

/* Sorted keys, no white space, one form per number. */
extern void canon_json(StringInfo out, Jsonb *json);

/* A JSON string with its quotes, nothing escaped that need not be. */
extern void canon_json_string(StringInfo out, const char *text, size_t len);

extern void  canon_sha256(const void *data, size_t len, uint8 digest[CANON_DIGEST_LEN]);
extern char *canon_hex(const uint8 *bytes, size_t len);

/* The name we write on the provider's object: [namespace] op_id [~generation]. */
extern char *canon_marker(const char *name_space, const char *op_id, int generation);

/* The generation a marker names, 0 when it is not one of this operation. */
extern int canon_marker_generation(const char *marker, const char *name_space,
								   const char *op_id);

/* The idempotency key: a function of namespace, op id and generation. A raw or
 * quoted key that is longer than `max` or not printable ASCII (raw: without
 * blanks) becomes its sha256 hex, cut to `max`. 36 characters of a uuid are
 * never cut. */
extern char *canon_key(KeyFormat format, int max, const char *name_space,
					   const char *op_id, int generation);

/* Why an op id is not acceptable, NULL if it is: completes "The op id ...". */
extern const char *canon_op_id_fault(const char *op_id);

/* A copy without white space at its ends. */
extern char *canon_trim(const char *text);

/* A body as JSON, or NULL. Never raises; U+FFFD stands for what cannot be text. */
extern Jsonb *canon_read_json(const char *data, size_t len);

/* Bytes as valid UTF-8 text for people. */
extern char *canon_lossy_text(const char *data, size_t len);

#endif
