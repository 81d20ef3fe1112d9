/*
 * worker.h - the processes: a launcher per server, a worker per database.
 */
#ifndef OPL_WORKER_H
#define OPL_WORKER_H

#include "postgres.h"

#include "base/compat.h"

extern PGDLLEXPORT void op_ledger_worker_main(Datum slot);

#endif
