/*
 * freeze.h - spec and arguments -> the request of an operation.
 */
#ifndef OPL_FREEZE_H
#define OPL_FREEZE_H

#include "postgres.h"

#include "spec/spec.h"

/* Are these arguments what the action takes? Raises OL004 naming the argument. */
extern void profile_check_args(const Spec *spec, const char *action, Jsonb *args);

/* The request of an operation, rendered and frozen. */
typedef struct Frozen
{
	char  *key; /* NULL: none */
	char  *method;
	char  *url;
	int    nheaders;
	char **headers; /* "Name: value", without the secret */
	char  *body;    /* NULL: none */
	size_t body_len;
} Frozen;

extern void profile_freeze(const Spec *spec, const char *name_space, const char *op_id,
						   int generation, Jsonb *args, const char *traceparent,
						   Frozen *frozen);

/* What lookups are about: an operation as it was frozen, whatever the spec says now
 * of address, namespace and key. */
typedef struct Subject
{
	const char *base_url;
	const char *name_space;
	const char *key;
	const char *op_id;
	int         generation;
	Jsonb      *args;
	const char *external_id; /* NULL: not known */
} Subject;

/* The lookup's request, rendered when it is asked. */
extern void profile_lookup(const Spec *spec, const Subject *subject, Frozen *frozen);

/* sha256, in hex, of all that is sent but the secret. */
extern char *profile_digest(const Frozen *frozen);

/* The provider's page about an operation, for a person; NULL: the spec names
 * none, or what it names is not known yet. */
extern char *profile_console(const Spec *spec, const Subject *subject);

/* The object with this external id, asked for while it is not final. */
extern void profile_poll(const Spec *spec, const Subject *subject, Frozen *frozen);

/* The URL of page `number`, made from the first one's and the page before, which
 * had `seen` items up to its end. NULL: that page does not say what comes next. */
extern char *profile_next_page(const Spec *spec, const char *first_url, Jsonb *before,
							   int number, int64 seen);

/* The header that carries the secret, built when sending; NULL: none. Raises
 * OL008 without the value when the secret cannot be read or is no header text. */
extern char *profile_auth_header(const Spec *spec, const char *secret_dir);

/* First fault of a header line ("Name: value"), NULL if it may be sent. */
extern const char *profile_header_fault(const char *line);

#endif
