/*
 * launcher.h - one worker per database that has the extension.
 */
#ifndef OPL_LAUNCHER_H
#define OPL_LAUNCHER_H

#include "postgres.h"

#include "base/compat.h"

/* _PG_init: ask the postmaster for the launcher. */
extern void launcher_register(void);

extern PGDLLEXPORT void op_ledger_launcher_main(Datum unused);

#endif
