/*
 * step.c - a wall clock that a test may set, for one server alone.
 *
 * Preloaded, it adds the microseconds in the file $OP_LEDGER_CLOCK to what the wall
 * clock says. The steady clocks are left alone, as a real step leaves them.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *offset;

__attribute__((constructor)) static void
map_offset(void)
{
	const char *name = getenv("OP_LEDGER_CLOCK");
	int         fd = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
	void       *at;

	if (fd < 0)
		return;
	at = mmap(NULL, sizeof(*offset), PROT_READ, MAP_SHARED, fd, 0);
	if (at != MAP_FAILED)
		offset = at;
	close(fd);
}

static int64_t
wall_us(struct timespec *rest)
{
	struct timespec real;

	syscall(SYS_clock_gettime, CLOCK_REALTIME, &real);
	rest->tv_nsec = real.tv_nsec % 1000;
	return (int64_t) real.tv_sec * 1000000 + real.tv_nsec / 1000 +
		(offset ? *offset : 0);
}

int
clock_gettime(clockid_t clock, struct timespec *out)
{
	int64_t us;

	if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)
		return (int) syscall(SYS_clock_gettime, clock, out);
	us = wall_us(out);
	out->tv_sec = us / 1000000;
	out->tv_nsec += us % 1000000 * 1000;
	return 0;
}

int
gettimeofday(struct timeval *restrict out, void *restrict zone)
{
	struct timespec rest;
	int64_t         us = wall_us(&rest);

	out->tv_sec = us / 1000000;
	out->tv_usec = us % 1000000;
	return 0;
}

time_t
time(time_t *out)
{
	struct timespec rest;
	time_t          now = wall_us(&rest) / 1000000;

	if (out)
		*out = now;
	return now;
}
