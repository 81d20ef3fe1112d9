/*
 * jsonpath.h - jsonpaths from text that may be wrong, run on JSON that may be
 * anything.
 */
#ifndef OPL_JSONPATH_H
#define OPL_JSONPATH_H

#include "postgres.h"

#include "utils/jsonb.h"
#include "utils/jsonpath.h"

#define SCAN_PATH_MAX 1000

/* NULL, and the fault in words: the text is no path, or one that could raise when it
 * runs. `condition`: it must be able to answer true or false. */
extern JsonPath *scan_path(const char *text, bool condition, char **fault);

/* The list a path walks through: what stands before its last "[*]"; NULL if
 * there is none. */
extern JsonPath *scan_path_list(const char *text);

/* These never raise on a path that scan_path() let through. */
extern bool   path_holds(JsonPath *path, Jsonb *json);
extern Jsonb *path_first(JsonPath *path, Jsonb *json); /* NULL: nothing */
extern Jsonb *path_all(JsonPath *path, Jsonb *json);   /* an array */

/* A scalar that names something, as text: a string that is not empty, or a
 * number. NULL: it is something else. */
extern char *path_text(JsonPath *path, Jsonb *json);

#endif
