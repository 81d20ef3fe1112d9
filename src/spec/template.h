/*
 * template.h - "{name}" in a spec's strings -> bytes of a request.
 */
#ifndef OPL_TEMPLATE_H
#define OPL_TEMPLATE_H

#include "postgres.h"

#include "lib/stringinfo.h"
#include "nodes/pg_list.h"
#include "utils/jsonb.h"

/* What a placeholder can name. NULL: not available here. */
typedef struct Scope
{
	Jsonb      *args; /* an object */
	const char *op_id;
	const char *marker;
	const char *external_id;
	const char *key; /* for a key in the body */
} Scope;

typedef enum Escape
{
	ESCAPE_NONE,
	ESCAPE_PATH, /* one path segment: "/" inside a value is encoded */
	ESCAPE_QUERY
} Escape;

/* The text with its placeholders filled in. Raises OL004 for one that is
 * missing. "{{" and "}}" are braces. */
extern char *template_text(const char *text, const Scope *scope, Escape escape);

/* An object as application/x-www-form-urlencoded, a[b]=c for what is nested. A
 * member that is only an optional argument which was not given is left out. */
extern void template_form(StringInfo out, const JsonbValue *object, const Scope *scope);

/* Any JSON with its placeholders filled in; one alone in a string keeps its
 * type. Members of an argument that was not given are left out. */
extern void template_json(StringInfo out, const JsonbValue *value, const Scope *scope);

/* The names used in strings of `value`, as a List of char *, each once. */
extern List *template_names(const JsonbValue *value);

#endif
