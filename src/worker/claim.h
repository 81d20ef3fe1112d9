/*
 * claim.h - what is due -> what goes out.
 */
#ifndef OPL_CLAIM_H
#define OPL_CLAIM_H

#include "worker/batch.h"

/* Take what is due and may go on the wire, at most `limit` rows of the agenda. */
extern void claim_take(Batch *batch, int limit);

/* Lock its operations, decide, and prepare what is to be sent after the commit. */
extern void claim_due(Batch *batch);

/* When the agenda has something next for a place that is free, OPL_NEVER: never. */
extern TimestampTz claim_next(const Batch *batch);

#endif
