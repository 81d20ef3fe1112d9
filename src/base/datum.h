/*
 * datum.h - C values as values of SQL, and back.
 */
#ifndef OPL_DATUM_H
#define OPL_DATUM_H

#include "postgres.h"

extern Datum  datum_texts(char **texts, int n);          /* a text[] */
extern char **datum_read_texts(Datum array, int *count); /* of one without NULLs */
extern Datum  datum_bytes(const char *data, size_t len); /* a bytea */

#endif
