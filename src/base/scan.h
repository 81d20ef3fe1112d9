/*
 * scan.h - durations, moments, JSON and jsonpaths from text that may be wrong; and
 * jsonpaths run on JSON that may be anything.
 */
#ifndef OPL_SCAN_H
#define OPL_SCAN_H

#include "postgres.h"

#include "utils/jsonb.h"
#include "utils/jsonpath.h"
#include "utils/timestamp.h"

#define SCAN_PATH_MAX 1000

/* Each of these four never raises for what the text says: false or NULL, and
 * the fault in words. */
extern bool   scan_duration(const char *text, int64 *microseconds, char **fault);
extern bool   scan_moment(const char *text, TimestampTz *moment, char **fault);
extern Jsonb *scan_json(const char *text, char **fault);

/* `condition`: the path must be able to answer true or false. */
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
