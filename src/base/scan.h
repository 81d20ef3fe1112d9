/*
 * scan.h - durations, moments and JSON from text that may be wrong.
 */
#ifndef OPL_SCAN_H
#define OPL_SCAN_H

#include "postgres.h"

#include "fmgr.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

/* Each of these never raises for what the text says: false or NULL, and the fault
 * in words. */
extern bool   scan_duration(const char *text, int64 *microseconds, char **fault);
extern bool   scan_moment(const char *text, TimestampTz *moment, char **fault);
extern Jsonb *scan_json(const char *text, char **fault);

/* The same for any type: `function` is its input function. */
extern bool scan_input(PGFunction function, const char *text, Datum *result,
					   char **fault);

#endif
