/*
 * answer.h - the bytes of an answer: its headers, and its body without what was put
 * on it for the way.
 *
 * Nothing here raises for what a provider or a network said. What came is never
 * changed: it is evidence.
 */
#ifndef OPL_ANSWER_H
#define OPL_ANSWER_H

#include "postgres.h"

#include "lib/stringinfo.h"
#include "utils/jsonb.h"
#include "wire/exchange.h"

/* A body as its sender meant it: content codings undone, UTF-16 as UTF-8. */
typedef struct Plain
{
	const char *data; /* the bytes as they came, or a copy */
	size_t      len;
	bool        is_copy;
	bool        cut;    /* it goes on behind the limit */
	char       *coding; /* that cannot be undone here, like br; NULL: none */
} Plain;

extern Plain answer_plain(const char *headers, size_t headers_len, const char *body,
						  size_t body_len, size_t limit);

/* The body of an answer, read. */
typedef struct AnswerBody
{
	Jsonb *json;   /* NULL: there is none that can be read */
	bool   empty;  /* it has no byte */
	bool   hidden; /* something was said that cannot be read: the rest of what was cut, or
					  all of what is in a coding that cannot be undone */
	const char *fault; /* a word for why json is NULL */
} AnswerBody;

extern AnswerBody answer_read(const Evidence *e, size_t limit);

/* The value of the first header of that name; NULL: there is none. */
extern char *answer_header(const char *headers, size_t headers_len, const char *name);

/* {"name": "value"} or {"name": ["value", …]}, as drivers give them, as the lines that
 * came over the wire. */
extern void answer_put_headers(StringInfo lines, Jsonb *headers);

/* Overwrite the values of headers that say how the body was packed: it is stored
 * without. */
extern void answer_unpack_headers(char *headers, size_t headers_len);

#endif
