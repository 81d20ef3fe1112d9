/*
 * redact.h - places in a document that people are not shown.
 */
#ifndef OPL_REDACT_H
#define OPL_REDACT_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "utils/jsonb.h"

/* "$.card.number", "$.items[*].secret", "$.**.token": steps to a place. */
typedef struct RedactPath RedactPath;

/* NULL: it is more than steps to a place, such as a filter. */
extern RedactPath *redact_parse(const char *text);

/* A copy with "***" at each place that one of the paths leads to, as a jsonpath
 * in lax mode would walk. */
extern Jsonb *redact_json(Jsonb *json, List *paths);

/* The same for a=1&card[number]=2. */
extern char *redact_form(const char *form, size_t len, List *paths);

#endif
