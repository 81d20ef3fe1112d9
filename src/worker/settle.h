/*
 * settle.h - answers -> what follows.
 */
#ifndef OPL_SETTLE_H
#define OPL_SETTLE_H

#include "worker/batch.h"

/* Judge the batch's answers against their operations, which get locked. What a
 * session holds stays in hand, and is tried next turn. */
extern void settle_answers(Batch *batch);

#endif
