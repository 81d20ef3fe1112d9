/*
 * secret.h - secrets by reference: "file:NAME" or "env:NAME".
 */
#ifndef OPL_SECRET_H
#define OPL_SECRET_H

#include "postgres.h"

/* What is wrong with a reference, or NULL. */
extern const char *secret_fault(const char *reference);

/* The secret itself, read now. Raises OL008, which never shows it. */
extern char *secret_read(const char *reference, const char *directory);

#endif
