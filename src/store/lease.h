/*
 * lease.h - bounds of what a client may claim.
 */
#ifndef OPL_LEASE_H
#define OPL_LEASE_H

#include "rules/decide.h"

#define LEASE_DEFAULT (30 * OPL_SECOND)
#define LEASE_MIN (1 * OPL_SECOND)

/* After an adoption nobody knows which leases the lost time line gave: each of
 * them ends within this. */
#define LEASE_MAX (60 * OPL_MINUTE)

#endif
