/*
 * reactor.h - sleep until the latch, a socket or a moment.
 */
#ifndef OPL_REACTOR_H
#define OPL_REACTOR_H

#include "postgres.h"

/* Once per process: MyLatch, the postmaster's death, and `descriptor` (-1: none). */
extern void reactor_start(int descriptor);

/* What ended a sleep; both may have. */
#define REACTOR_LATCH 0x1
#define REACTOR_DESCRIPTOR 0x2

/* Sleeps at most timeout_ms (-1: no limit). Resets the latch when it was set.
 * Exits the process when the postmaster is gone. */
extern int reactor_wait(long timeout_ms, uint32 wait_event);

#endif
