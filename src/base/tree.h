/*
 * tree.h - jsonb as a tree.
 */
#ifndef OPL_TREE_H
#define OPL_TREE_H

#include "postgres.h"

#include "utils/jsonb.h"

/* What kind of JSON it is, with its article. */
extern const char *json_kind(const JsonbValue *value);

extern bool json_is_object(const JsonbValue *value);
extern bool json_is_array(const JsonbValue *value);

/* A member of an object; false: it is not there. */
extern bool json_member(const JsonbContainer *object, const char *name,
						JsonbValue *value);

/* a, over it b: objects key by key, all else replaced. */
extern Jsonb *json_merge(Jsonb *a, Jsonb *b);

/* The object with `json` at a JSON pointer ("/a/b"); unchanged when the pointer's
 * parents are not there. */
extern JsonbValue *json_set(const JsonbValue *object, const char *pointer,
							const char *json);

#endif
