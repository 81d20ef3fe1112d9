/*
 * guc.h - every setting of op_ledger. doc/operating.md has them as a table.
 */
#ifndef OPL_GUC_H
#define OPL_GUC_H

#include "postgres.h"

/* What a worker does that finds its server promoted. */
typedef enum Failover
{
	FAILOVER_STOP,    /* wait for op_adopt() */
	FAILOVER_CONTINUE /* adopt by itself; keys still guard */
} Failover;

#define OPL_WORKERS_MAX 16

extern bool  opl_enabled;
extern int   opl_failover;
extern int   opl_workers; /* per database */
extern char *opl_databases;
extern char *opl_secret_dir;

extern void guc_define(void);

/* Does op_ledger.databases allow this one? Empty allows all. */
extern bool guc_allows_database(const char *name);

#endif
