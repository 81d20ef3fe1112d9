/*
 * sockets.c - the descriptors of the transport: watched, told apart, listened to.
 *
 * Invariants:
 *
 *  1. One epoll descriptor stands for all of them, so that the process can sleep
 *     on it together with its latch. It is always drained without waiting.
 *  2. An idle connection stays registered, for most are used again at once (two
 *     system calls less a request). It is taken out when it makes itself heard:
 *     no busy loop, and its next user sees what it said.
 *  3. What the table says of a descriptor is forgotten when it is closed. libcurl
 *     also has descriptors of its own, of which no end is reported: these are
 *     taken out as soon as they are idle.
 */
#include "postgres.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire/sockets.h"
#include "storage/fd.h"

/* At the index of its number. */
typedef struct Socket
{
	uint16 local_port; /* 0: not connected, or not looked at yet */
	uint16 peer_port;
	int    next;       /* in the chain of its local port; -1: the last */
	bool   ours;       /* opened here, so closing it is reported */
	bool   used;       /* it carried a request */
	uint32 wanted;     /* what is waited for; 0: idle */
	uint32 registered; /* what epoll watches */
} Socket;

static int     epoll_fd = -1;
static Socket *sockets = NULL;
static int     sockets_size = 0;

/* Ours, by local port: every request looks its own up, among hundreds. */
#define CHAINS 1024
static int chains[CHAINS];
static int unchained = 0; /* whose ports are not known yet */

bool
sockets_start(void)
{
	memset(chains, -1, sizeof(chains));
	ReserveExternalFD();
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	return epoll_fd >= 0;
}

int
sockets_descriptor(void)
{
	return epoll_fd;
}

/* --------------------------------------------------------------- the table */

static bool
reach(int fd)
{
	int     size = Max(2 * sockets_size, Max(fd + 1, 64));
	Socket *grown;

	if (fd < sockets_size)
		return true;
	grown = realloc(sockets, size * sizeof(Socket));
	if (grown == NULL)
		return false;
	memset(grown + sockets_size, 0, (size - sockets_size) * sizeof(Socket));
	sockets = grown;
	sockets_size = size;
	return true;
}

int
sockets_open(int family, int type, int protocol)
{
	int fd = socket(family, type | SOCK_CLOEXEC, protocol);

	if (fd < 0)
		return -1;
	if (!reach(fd))
	{
		close(fd);
		return -1;
	}
	sockets[fd] = (Socket){.ours = true};
	unchained++;
	return fd;
}

bool
sockets_is_ours(int fd)
{
	return fd < sockets_size && sockets[fd].ours;
}

static int *
chain_of(uint16 local_port)
{
	return &chains[local_port % CHAINS];
}

static void
unchain(int fd)
{
	int *link = chain_of(sockets[fd].local_port);

	while (*link != fd)
		link = &sockets[*link].next;
	*link = sockets[fd].next;
}

int
sockets_close(int fd)
{
	if (sockets_is_ours(fd))
	{
		if (sockets[fd].local_port == 0)
			unchained--;
		else
			unchain(fd);
	}
	if (fd < sockets_size)
		sockets[fd] = (Socket){0};
	return close(fd);
}

/* ---------------------------------------------------------------- watching */

/* The table may be behind on a descriptor of libcurl's own: epoll knows better. */
static void
watch(int fd, uint32 events)
{
	Socket            *s = &sockets[fd];
	struct epoll_event event = {.events = events, .data.fd = fd};

	if (s->registered == events)
		return;
	if (events == 0)
		epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	else if (s->registered == 0 ||
			 (epoll_ctl(epoll_fd, EPOLL_CTL_MOD, fd, &event) < 0 && errno == ENOENT))
	{
		if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 && errno == EEXIST)
			epoll_ctl(epoll_fd, EPOLL_CTL_MOD, fd, &event);
	}
	s->registered = events;
}

bool
sockets_want(int fd, uint32 events)
{
	if (!reach(fd))
		return false;
	sockets[fd].wanted = events;
	if (events != 0 || !sockets[fd].ours)
		watch(fd, events);
	return true;
}

int
sockets_ready(Ready ready[READY_MAX])
{
	struct epoll_event events[READY_MAX];
	int                count = epoll_wait(epoll_fd, events, READY_MAX, 0);
	int                n = 0;

	for (int i = 0; i < count; i++)
	{
		int fd = events[i].data.fd;

		if (sockets[fd].wanted == 0)
			watch(fd, 0);
		else
			ready[n++] = (Ready){fd, events[i].events};
	}
	return n;
}

/* ------------------------------------------------------------- telling apart */

static uint16
port_of(const struct sockaddr_storage *address)
{
	if (address->ss_family == AF_INET)
		return ntohs(((const struct sockaddr_in *) address)->sin_port);
	if (address->ss_family == AF_INET6)
		return ntohs(((const struct sockaddr_in6 *) address)->sin6_port);
	return 0;
}

static void
learn_ports(int fd)
{
	struct sockaddr_storage local, peer;
	socklen_t               local_len = sizeof(local), peer_len = sizeof(peer);
	Socket                 *s = &sockets[fd];

	if (getsockname(fd, (struct sockaddr *) &local, &local_len) < 0 ||
		getpeername(fd, (struct sockaddr *) &peer, &peer_len) < 0 || port_of(&local) == 0)
		return; /* still connecting */
	s->local_port = port_of(&local);
	s->peer_port = port_of(&peer);
	s->next = *chain_of(s->local_port);
	*chain_of(s->local_port) = fd;
	unchained--;
}

/* Connections to different hosts may share both ports; that is rare, and the
 * caller can do without an answer. */
int
sockets_find(int local_port, int peer_port)
{
	int found = -1;

	for (int fd = 0; unchained > 0 && fd < sockets_size; fd++)
	{
		if (sockets[fd].ours && sockets[fd].local_port == 0)
			learn_ports(fd);
	}
	for (int fd = *chain_of(local_port); fd >= 0; fd = sockets[fd].next)
	{
		if (sockets[fd].local_port != local_port || sockets[fd].peer_port != peer_port)
			continue;
		if (found >= 0)
			return -1;
		found = fd;
	}
	return found;
}

/* --------------------------------------------------------------- listening */

bool
sockets_first_use(int fd)
{
	bool first = !sockets[fd].used;

	sockets[fd].used = true;
	return first;
}

bool
sockets_spoke(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 ||
		   (errno != EAGAIN && errno != EWOULDBLOCK);
}
