/*
 * home.h - may this copy of the ledger send?
 *
 * Dumps, templates, file copies, recovered backups and promoted standbys all
 * carry the rows of their original. What tells them apart is where they are.
 */
#ifndef OPL_HOME_H
#define OPL_HOME_H

#include "postgres.h"

typedef struct HomeRow
{
	uint64 system_identifier;
	Oid    database;
	Oid    extension;
	uint32 timeline;
	int64  control_inode; /* of global/pg_control: a file copy has another */
	bool   retired;
} HomeRow;

/* The extension in this database and its schema, InvalidOid when it is not here. */
extern Oid home_extension(Oid *schema);

/* Where we are. Not in recovery. */
extern HomeRow home_here(Oid extension);

/* Why nothing may be sent from here, NULL if it may. */
extern const char *home_fault(const HomeRow *homes, int count, const HomeRow *here);

#endif
