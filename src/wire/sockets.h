/*
 * sockets.h - the descriptors of the transport: watched, told apart, listened to.
 *
 * Callable from libcurl's callbacks: nothing here raises or palloc()s.
 */
#ifndef OPL_SOCKETS_H
#define OPL_SOCKETS_H

#include "postgres.h"

/* A descriptor with something to do, as bits of epoll. */
typedef struct Ready
{
	int    fd;
	uint32 events;
} Ready;

/* Once per process. False: errno says why not. */
extern bool sockets_start(void);

/* Readable when sockets_ready() has something to tell. */
extern int sockets_descriptor(void);

/* A socket of ours, or -1; and its end. */
extern int sockets_open(int family, int type, int protocol);
extern int sockets_close(int fd);

/* From now on wait for `events` on any descriptor; 0: it is idle. False: out of
 * memory. */
extern bool sockets_want(int fd, uint32 events);

/* Was it opened by sockets_open()? */
extern bool sockets_is_ours(int fd);

/* Without waiting: descriptors on which a wanted event came. */
#define READY_MAX 128
extern int sockets_ready(Ready ready[READY_MAX]);

/* The connected socket of ours with these ports; -1: none, or more than one. */
extern int sockets_find(int local_port, int peer_port);

/* Is this the first request on it? Counts it. */
extern bool sockets_first_use(int fd);

/* Bytes nobody read, or the end of the connection. */
extern bool sockets_spoke(int fd);

#endif
