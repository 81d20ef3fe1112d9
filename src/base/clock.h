/*
 * clock.h - what time it is, and for how long that can be believed.
 *
 * Two clocks. The steady one never steps while the machine is up; durations are
 * measured by it. The ledger's clock gives moments: it is the wall clock, but goes
 * on steadily when the wall steps by less than CLOCK_TOLERANCE, and follows it with
 * a step of its own when that is more. So the distance of two of its moments is
 * true time, unless a step was noticed between them.
 */
#ifndef OPL_CLOCK_H
#define OPL_CLOCK_H

#include "postgres.h"

#include "datatype/timestamp.h"

/* Smaller steps of the wall clock are not followed at once, but crept after: a leap
 * second, or a correction by NTP, is no news. */
#define CLOCK_TOLERANCE (5 * USECS_PER_SEC)

/* All of one moment. */
typedef struct ClockReading
{
	TimestampTz now;
	int64       steady; /* the same moment by the steady clock */

	/* Of moments before it the distance to now is not known: the last step, or the
	 * first start of the server since the machine is up. DT_NOBEGIN: there is none. */
	TimestampTz steady_since;

	/* Steps back: moments up to `set_back_from` may be as much too late. */
	TimestampTz set_back_from; /* DT_NOBEGIN: there was none */
	int64       set_back_by;   /* all of them together */

	int64       steps;      /* that were noticed */
	TimestampTz stepped_at; /* the last one, by the clock after it */
	int64       last_step;  /* positive: forward */
	bool        proven;     /* it went steadily before the server's start, too */
} ClockReading;

/* _PG_init: ask for the memory. */
extern void clock_init(void);

/* Microseconds; of use only beside others of the same clock. */
extern int64 clock_steady(void);

/* Reads the clock, and notices when it stepped: what decisions are made by. */
extern ClockReading clock_read(void);

/* The moment alone, for what is only written down. Does not notice steps. */
extern TimestampTz clock_now(void);

/* The moment of a steady reading, as the clock goes now. */
extern TimestampTz clock_moment(int64 steady);

/* True for one caller after each step: it tells people. */
extern bool clock_tells(int64 steps);

#endif
