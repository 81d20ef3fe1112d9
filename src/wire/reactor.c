/*
 * reactor.c - sleep until the latch, a socket or a moment.
 *
 * Invariants:
 *
 *  1. The process sleeps here and nowhere else, and never longer than it was told.
 *  2. The latch is reset before the caller looks for work, so a wake that comes
 *     while it works ends the next sleep at once.
 */
#include "postgres.h"

#include "base/compat.h"
#include "miscadmin.h"
#include "wire/reactor.h"
#include "storage/fd.h"
#include "storage/latch.h"

/* The latch, the postmaster, one descriptor. */
#define EVENT_COUNT 3

static WaitEventSet *events = NULL;

void
reactor_start(int descriptor)
{
	Assert(events == NULL);
	events = opl_create_wait_event_set(EVENT_COUNT);
	AddWaitEventToSet(events, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(events, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
	if (descriptor >= 0)
		AddWaitEventToSet(events, WL_SOCKET_READABLE, descriptor, NULL, NULL);
}

int
reactor_wait(long timeout_ms, uint32 wait_event)
{
	WaitEvent occurred[EVENT_COUNT];
	int       ended = 0;
	int count = WaitEventSetWait(events, timeout_ms, occurred, EVENT_COUNT, wait_event);

	for (int i = 0; i < count; i++)
	{
		if (occurred[i].events & WL_LATCH_SET)
		{
			ResetLatch(MyLatch);
			ended |= REACTOR_LATCH;
		}
		if (occurred[i].events & WL_SOCKET_READABLE)
			ended |= REACTOR_DESCRIPTOR;
	}
	return ended;
}
