/*
 * spec.h - the spec of an action, read: where requests go, what they are, what
 * answers mean and what the provider promises.
 */
#ifndef OPL_SPEC_H
#define OPL_SPEC_H

#include "postgres.h"

#include "base/canon.h"
#include "rules/decide.h"
#include "spec/signature.h"
#include "utils/jsonb.h"
#include "utils/jsonpath.h"
#include "utils/numeric.h"

typedef enum AuthScheme
{
	AUTH_NONE,
	AUTH_BEARER,
	AUTH_BASIC,
	AUTH_HEADER
} AuthScheme;

typedef enum KeyPlace
{
	KEY_IN_NONE,
	KEY_IN_HEADER,
	KEY_IN_BODY
} KeyPlace;

typedef enum BodyKind
{
	BODY_NONE,
	BODY_FORM,
	BODY_JSON
} BodyKind;

typedef enum Effect
{
	EFFECT_CREATE, /* each request is one more thing */
	EFFECT_SET     /* a repeat sets the same value */
} Effect;

typedef enum Executor
{
	EXECUTOR_WORKER,
	EXECUTOR_CLIENT /* sends are claimed by op_claim(); the worker only looks */
} Executor;

typedef enum Grade
{
	GRADE_STRONG,
	GRADE_EVENTUAL
} Grade;

typedef struct SpecArg
{
	char       *name;
	const char *type; /* text, integer, number, boolean, object, array, any */
	bool        optional;
	bool        has_min, has_max; /* of numbers the value, of text the length */
	Numeric     min, max;
	Jsonb      *one_of; /* array, or NULL */
} SpecArg;

typedef struct SpecRule
{
	int        nstatus;
	int       *status; /* any of them; none: any status */
	JsonPath  *body;   /* NULL: any */
	char      *header; /* NULL: any; lower case */
	char      *value;  /* of the header; NULL: present is enough */
	OplVerdict then;
	char      *reason;
	bool       keyed;
} SpecRule;

/* How an object of the provider is read. */
typedef struct SpecObject
{
	JsonPath *is;        /* holds for objects of this kind; NULL: for all */
	JsonPath *id;        /* NULL: only a header has it */
	char     *id_header; /* that has it where the object has not; NULL: none */
	bool      id_last;   /* the last segment of the header's path */
	JsonPath *marker;
	JsonPath *pending;
	JsonPath *failed;
} SpecObject;

/* How the provider tells us by itself. */
typedef struct SpecWebhook
{
	char     *secret; /* reference; NULL: there are no webhooks */
	Signature signature;
	JsonPath *object;    /* of the event; NULL: "$" */
	JsonPath *id;        /* of the event's own id; NULL: signature.id */
	JsonPath *type;      /* a word for people */
	JsonPath *condition; /* for events that are looked at; NULL: all */
} SpecWebhook;

typedef struct Spec
{
	Jsonb *json; /* merged; the strings below point into copies of it */

	/* where to */
	char *base_url; /* scheme://host[:port][/prefix], without a slash at the end */
	char *secret;   /* "file:name" or "env:NAME", NULL: none */
	char *account;  /* whose secret it is; NULL: as the reference says */
	char *ca_file;
	char *proxy;
	char *name_space;
	int   concurrency;
	int   response_limit;

	SpecWebhook webhook;

	/* what goes out, and who sends it */
	Executor    executor;
	Effect      effect;
	AuthScheme  auth;
	char       *auth_header; /* name, for AUTH_HEADER */
	int         nargs;
	SpecArg    *args;
	const char *method;
	char       *path;
	JsonbValue *query; /* object or NULL */
	JsonbValue *headers;
	BodyKind    body_kind;
	JsonbValue *body;
	KeyPlace    key_place;
	char       *key_name; /* header name, or JSON pointer into the body */
	KeyFormat   key_format;
	int         key_max;

	/* what comes back */
	bool       has_object;
	SpecObject object;
	JsonPath  *success_object; /* where the object stands in an answer; NULL: "$" */
	JsonPath  *success_if;     /* must hold as well; NULL: nothing */
	char      *replayed;       /* header that marks a replay, lower case, or NULL */
	int        nrules;
	SpecRule  *rules;

	/* lookup, when promises.recipe */
	bool        lookup_first;
	bool        lookup_one; /* a page that is one object, not a list */
	char       *lookup_path;
	JsonbValue *lookup_query;
	JsonPath   *lookup_items;
	JsonPath
		*lookup_list; /* what lookup_items walks through: an array, or it is no page */
	JsonPath   *lookup_more;
	JsonbValue *lookup_next; /* parameters of the next page, "{0}" the first cursor */
	int         ncursors;
	JsonPath  **cursors;        /* where a page shows them */
	bool        next_by_number; /* no cursor: pages are counted */
	int         lookup_pages;   /* at most */
	Grade       grade;

	/* one object by its external id, while it is not final; path NULL: no poll */
	char       *poll_path;
	JsonbValue *poll_query;

	/* people */
	bool  approval; /* born held */
	char *console;  /* where a person looks at the object; NULL: nowhere */

	int64       connect_timeout; /* microseconds */
	OplPromises promises;
} Spec;

/* Whose spec it is; some fields are for a provider as a whole. */
#define SPEC_PROVIDER 0x01
#define SPEC_ACTION 0x02
#define SPEC_ROW 0x04 /* columns of op_provider alone */
#define SPEC_MERGED (SPEC_PROVIDER | SPEC_ACTION | SPEC_ROW)

/* Read a spec, in the current memory context: names and types checked, defaults
 * filled in. Raises OL003 with the path of what is wrong and the nearest known
 * name. `whole`: what is required must be there. `what` is for messages. */
extern Spec *spec_read(const char *what, Jsonb *json, int level, bool whole);

/* What of a merged spec tells whose account is asked and how, as a digest. */
extern OplPlace spec_place(Jsonb *merged);

/* Is it written in the spec, as "field" (then `member` is NULL) or "field.member"? */
extern bool spec_says(const Spec *spec, const char *field, const char *member);

#endif
