/*
 * signature.h - is a webhook genuine?
 *
 * Every scheme is an HMAC of some text that has the body in it. What differs is
 * data: where the signature and the moment stand, what is signed, how it is
 * written.
 */
#ifndef OPL_SIGNATURE_H
#define OPL_SIGNATURE_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "utils/jsonb.h"

typedef struct Signature
{
	int         scheme;    /* of signature_schemes */
	const char *header;    /* that has the signature */
	const char *separator; /* between several of them; NULL: it has one */
	const char *prefix;    /* what a signature begins with; NULL: nothing */
	const char *timestamp; /* "header:NAME" or "item:PREFIX"; NULL: none */
	const char *id;        /* "header:NAME" of the event's id; NULL: none */
	const char *payload;   /* what is signed: {timestamp}, {id}, {url}, {body} */
	int         hash;      /* of signature_hashes; -1: as the scheme says */
	int         encoding;  /* of signature_encodings */
	int         key;       /* of signature_keys: how the secret is written */
	const char *url;       /* under which the provider knows us */
	int64       tolerance; /* microseconds between its moment and ours */
} Signature;

/* Names in the order of the numbers above. */
extern const char *const signature_schemes[];
extern const char *const signature_hashes[];
extern const char *const signature_encodings[];
extern const char *const signature_keys[];

/* What is not said is what the scheme says. */
extern void signature_complete(Signature *how);

/* What is wrong with it, as "field must …"; NULL: nothing. */
extern const char *signature_fault(const Signature *how);

typedef enum SignatureVerdict
{
	SIGNATURE_GOOD,
	SIGNATURE_BAD,
	SIGNATURE_STALE, /* good, but of another time */
	SIGNATURE_NO_KEY /* the secret is not written as it should be */
} SignatureVerdict;

extern SignatureVerdict signature_check(const Signature *how, const char *secret,
										Jsonb *headers, const char *body, size_t len,
										TimestampTz now);

/* A header of {"Name": "value"}, whatever its case; NULL: it is not there. */
extern char *signature_header(Jsonb *headers, const char *name);

#endif
