/*
 * home.h - op_control: may this copy of the ledger send?
 *
 * Dumps, templates, file copies, recovered backups and promoted standbys all
 * carry the rows of their original. What tells them apart is where they are.
 */
#ifndef OPL_HOME_H
#define OPL_HOME_H

#include "postgres.h"

#include "store/ledger.h"

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

typedef enum HomeFault
{
	HOME_OK,        /* this is the ledger's home */
	HOME_ELSEWHERE, /* it has a home in another database or cluster */
	HOME_NONE,      /* it has no home here */
	HOME_PROMOTED,  /* the same place, but a later time line */
	HOME_COPIED     /* the same place and time line, but other files */
} HomeFault;

/* May this copy send? Where several things are wrong, the gravest. */
extern HomeFault home_fault(const Ledger *ledger, Oid extension);

/* Why nothing may be sent from here, NULL if it may. */
extern const char *home_reason(HomeFault fault);

/* Adoption: one at a time, and nobody reads less than before. */
extern void home_lock(const Ledger *ledger);
/* `here` is the home from now on, and no other one. */
extern void home_settle(const Ledger *ledger, const HomeRow *here, const char *actor,
						TimestampTz now);

#endif
