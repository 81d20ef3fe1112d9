/*
 * clock.c - one clock for all processes of the server, that does not step unseen.
 *
 * Shared memory holds how far the ledger's clock is ahead of the steady one. Every
 * reading compares: whoever is first to see that the wall clock is elsewhere by more
 * than CLOCK_TOLERANCE moves the offset, and from then on all processes know of it.
 *
 *  1. Offset and what is known of steps change together, under the lock; so no
 *     process sees a moment after a step without knowing of the step.
 *  2. A reading that is older than the last step is taken again: whoever was put to
 *     sleep with it in hand does not step the clock back.
 *  3. While the machine stays up the file remembers the offset across restarts of
 *     the server: the steady clock has gone on meanwhile, so a step is known by its
 *     size. On another machine, or after a boot, nothing is known of what was before,
 *     and the clock counts as steady since the start of the server.
 *
 * NTP slews both clocks alike, so their distance changes by steps alone. Creeping
 * after small steps is slower than a bad quartz is wrong.
 */
#include "postgres.h"

#include "base/clock.h"

#include <time.h>
#include <unistd.h>

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/timestamp.h"

#define CLOCK_FILE PGSTAT_STAT_PERMANENT_DIRECTORY "/op_ledger.clock"
#define BOOT_ID_FILE "/proc/sys/kernel/random/boot_id"
#define BOOT_ID_SIZE 64

/* One part in so many of what has passed. */
#define CREEP 10000

/* Time that goes on while a machine sleeps. */
#ifdef CLOCK_BOOTTIME
#define STEADY_CLOCK CLOCK_BOOTTIME
#else
#define STEADY_CLOCK CLOCK_MONOTONIC
#endif

/* Both clocks are read within this, or the pair is read again: a process may be put
 * to sleep between the two. */
#define PAIR_WITHIN 1000
#define PAIR_TRIES 100

/* The numbers of Known, in its order. */
#define TWO INT64_FORMAT " " INT64_FORMAT
#define NUMBERS TWO " " TWO " " TWO " " INT64_FORMAT

/* What outlives a restart of the server while the machine is up. */
typedef struct Known
{
	int64       offset; /* the ledger's clock less the steady one */
	TimestampTz steady_since;
	TimestampTz set_back_from;
	int64       set_back_by;
	int64       steps;
	TimestampTz stepped_at;
	int64       last_step;
} Known;

typedef struct Shared
{
	slock_t lock;
	Known   known;
	bool    proven;
	int64   crept_at;   /* steady: the offset was last looked after */
	int64   stepped_at; /* steady: readings before it are of no use */
	int64   told;       /* steps that people were told of */
	LWLock *file;       /* who holds it writes the file */
} Shared;

static Shared *shared = NULL;

/* Not preloaded: this process's own. */
static Shared alone;

static shmem_request_hook_type prev_request_hook = NULL;
static shmem_startup_hook_type prev_startup_hook = NULL;

/* ------------------------------------------------------------- two clocks */

int64
clock_steady(void)
{
	struct timespec now;

	clock_gettime(STEADY_CLOCK, &now);
	return (int64) now.tv_sec * USECS_PER_SEC + now.tv_nsec / 1000;
}

static void
read_both(int64 *steady, TimestampTz *wall)
{
	int64 closest = PG_INT64_MAX;

	*steady = *wall = 0;
	for (int i = 0; i < PAIR_TRIES && closest > PAIR_WITHIN; i++)
	{
		int64       before = clock_steady();
		TimestampTz between = GetCurrentTimestamp();
		int64       took = clock_steady() - before;

		if (took >= closest)
			continue;
		closest = took;
		*steady = before;
		*wall = between;
	}
}

/* ---------------------------------------------------------------- the file */

/* Empty where the system does not say. */
static void
read_boot_id(char *id)
{
	FILE *file = AllocateFile(BOOT_ID_FILE, "r");

	id[0] = '\0';
	if (!file)
		return;
	if (!fgets(id, BOOT_ID_SIZE, file))
		id[0] = '\0';
	id[strcspn(id, "\n")] = '\0';
	FreeFile(file);
}

/* False: nothing is known of what was before. Where there is no file, there was no
 * before: nothing was ever sent from here, and no moment on record is too early. */
static bool
remember(Known *known)
{
	char  now[BOOT_ID_SIZE];
	char  then[BOOT_ID_SIZE];
	FILE *file = AllocateFile(CLOCK_FILE, "r");
	Known read = {0};
	int   n;

	if (!file)
		return errno == ENOENT;
	n = fscanf(file, "%63s " NUMBERS, then, &read.offset, &read.steady_since,
			   &read.set_back_from, &read.set_back_by, &read.steps, &read.stepped_at,
			   &read.last_step);
	FreeFile(file);
	if (n != 8)
		return false;
	read_boot_id(now);
	if (strcmp(now, then) != 0)
		return false;
	*known = read;
	return true;
}

/* Where it cannot be written it must be empty: an old one might hide a step. */
static void
write_down(const Known *known)
{
	char  boot_id[BOOT_ID_SIZE];
	FILE *file = AllocateFile(CLOCK_FILE ".tmp", "w");
	bool  written = false;

	read_boot_id(boot_id);
	if (file)
	{
		written = fprintf(file, "%s " NUMBERS "\n", boot_id[0] ? boot_id : "unknown",
						  known->offset, known->steady_since, known->set_back_from,
						  known->set_back_by, known->steps, known->stepped_at,
						  known->last_step) > 0;
		written = FreeFile(file) == 0 && written;
	}
	if (written && durable_rename(CLOCK_FILE ".tmp", CLOCK_FILE, LOG) == 0)
		return;
	ereport(LOG, (errcode_for_file_access(),
				  errmsg("could not write file \"%s\": %m", CLOCK_FILE)));
	(void) unlink(CLOCK_FILE ".tmp");
	file = AllocateFile(CLOCK_FILE, "w");
	if (file)
		FreeFile(file);
}

/* ------------------------------------------------------------------- steps */

/* Lock held. The clock is the wall clock again from here on. */
static void
step(Shared *s, int64 steady, int64 by)
{
	Known *known = &s->known;

	if (by < 0)
	{
		known->set_back_from = Max(known->set_back_from, steady + known->offset);
		known->set_back_by -= by;
	}
	known->offset += by;
	known->steady_since = known->stepped_at = steady + known->offset;
	known->last_step = by;
	known->steps++;
	s->stepped_at = steady;
}

/* Lock held. The offset goes towards that of the wall clock, unnoticeably. */
static void
creep(Shared *s, int64 steady, int64 by)
{
	int64 most = (steady - s->crept_at) / CREEP;

	if (most <= 0)
		return;
	s->crept_at = steady;
	s->known.offset += by < 0 ? Max(by, -most) : Min(by, most);
}

/* A step that only memory knows, and one that cancels it while the server is down,
 * would hide both: whoever notices one puts it on disk before going on. */
static void
note_step(Shared *s)
{
	Known known;

	if (s == &alone)
		return;
	LWLockAcquire(s->file, LW_EXCLUSIVE);
	SpinLockAcquire(&s->lock);
	known = s->known;
	SpinLockRelease(&s->lock);
	write_down(&known);
	LWLockRelease(s->file);
}

/* Without shared memory nothing was sent since the server's start. */
static Shared *
mine(void)
{
	int64       steady;
	TimestampTz wall;

	if (shared)
		return shared;
	if (alone.known.steady_since == 0)
	{
		read_both(&steady, &wall);
		SpinLockInit(&alone.lock);
		alone.known.offset = wall - steady;
		alone.known.steady_since = PgStartTime;
		alone.known.set_back_from = DT_NOBEGIN;
		alone.crept_at = alone.stepped_at = steady;
	}
	return &alone;
}

ClockReading
clock_read(void)
{
	Shared      *s = mine();
	ClockReading reading;
	bool         stepped = false;
	bool         stale;

	do
	{
		int64       steady;
		TimestampTz wall;
		int64       by;

		read_both(&steady, &wall);
		SpinLockAcquire(&s->lock);
		stale = steady < s->stepped_at;
		by = wall - steady - s->known.offset;
		if (!stale && Abs(by) > CLOCK_TOLERANCE)
		{
			step(s, steady, by);
			stepped = true;
		}
		else if (!stale)
			creep(s, steady, by);
		reading.steady = steady;
		reading.now = steady + s->known.offset;
		reading.steady_since = s->known.steady_since;
		reading.set_back_from = s->known.set_back_from;
		reading.set_back_by = s->known.set_back_by;
		reading.steps = s->known.steps;
		reading.stepped_at = s->known.stepped_at;
		reading.last_step = s->known.last_step;
		reading.proven = s->proven;
		SpinLockRelease(&s->lock);
	} while (stale);
	if (stepped)
		note_step(s);
	return reading;
}

TimestampTz
clock_moment(int64 steady)
{
	Shared *s = mine();
	int64   offset;

	SpinLockAcquire(&s->lock);
	offset = s->known.offset;
	SpinLockRelease(&s->lock);
	return steady + offset;
}

TimestampTz
clock_now(void)
{
	return clock_moment(clock_steady());
}

bool
clock_tells(int64 steps)
{
	Shared *s = mine();
	bool    news;

	SpinLockAcquire(&s->lock);
	news = s->told < steps;
	s->told = Max(s->told, steps);
	SpinLockRelease(&s->lock);
	return news;
}

/* ------------------------------------------------------------------ memory */

static void
request_memory(void)
{
	if (prev_request_hook)
		prev_request_hook();
	RequestAddinShmemSpace(sizeof(Shared));
	RequestNamedLWLockTranche("op_ledger_clock", 1);
}

/* At the server's start, and when it starts anew after a process crashed. */
static void
set_up(Shared *s)
{
	TimestampTz wall;
	int64       steady;

	memset(s, 0, sizeof(Shared));
	SpinLockInit(&s->lock);
	s->file = &GetNamedLWLockTranche("op_ledger_clock")->lock;
	read_both(&steady, &wall);
	s->crept_at = s->stepped_at = steady;
	s->known = (Known){
		.offset = wall - steady, .steady_since = DT_NOBEGIN, .set_back_from = DT_NOBEGIN};
	s->proven = remember(&s->known);
	if (!s->proven)
		s->known.steady_since = wall;
	s->told = s->known.steps;
	write_down(&s->known);
}

static void
set_up_memory(void)
{
	bool found;

	if (prev_startup_hook)
		prev_startup_hook();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	shared = ShmemInitStruct("op_ledger clock", sizeof(Shared), &found);
	if (!found)
		set_up(shared);
	LWLockRelease(AddinShmemInitLock);
}

void
clock_init(void)
{
	prev_request_hook = shmem_request_hook;
	shmem_request_hook = request_memory;
	prev_startup_hook = shmem_startup_hook;
	shmem_startup_hook = set_up_memory;
}
