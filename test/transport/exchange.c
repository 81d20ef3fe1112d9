/*
 * exchange.c - src/transport.c without a server around it.
 *
 * Reads commands, a line each, and prints the evidence of every exchange as one
 * line of JSON as soon as it comes back:
 *
 *   send TOKEN METHOD URL [name=value]...   tab separated; names: header, body,
 *                                           size (of a body of x), connect, total,
 *                                           before (milliseconds), limit, ca, proxy
 *   run                                     until nothing is in flight
 *   bench COUNT CONCURRENCY METHOD URL [name=value]...
 */
#include "postgres.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>

#include "base/clock.h"
#include "base/compat.h"
#include "wire/transport.h"

#define MAX_FIELDS 64

/* ------------------------------------- what the server gives in production */

int64
clock_steady(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64) now.tv_sec * USECS_PER_SEC + now.tv_nsec / 1000;
}

TimestampTz
clock_now(void)
{
	struct timeval now;

	gettimeofday(&now, NULL);
	return (TimestampTz) now.tv_sec * 1000000 + now.tv_usec -
		(POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY;
}

void
ReserveExternalFD(void)
{
}

bool
errstart(int elevel, const char *domain)
{
	return true;
}

bool
errstart_cold(int elevel, const char *domain)
{
	return true;
}

int
errcode(int sqlerrcode)
{
	return 0;
}

int
errcode_for_socket_access(void)
{
	return 0;
}

int
errmsg(const char *fmt, ...)
{
	fprintf(stderr, "%s\n", fmt);
	return 0;
}

int
errdetail(const char *fmt, ...)
{
	fprintf(stderr, "%s\n", fmt);
	return 0;
}

int
errdetail_internal(const char *fmt, ...)
{
	fprintf(stderr, "%s\n", fmt);
	return 0;
}

void
errfinish(const char *filename, int lineno, const char *funcname)
{
	exit(2);
}

void
ExceptionalCondition(OPL_ASSERTION)
{
	fprintf(stderr, "failed: %s, %s:%d\n", condition, file, line);
	abort();
}

/* ----------------------------------------------------------------- requests */

typedef struct Job
{
	char       *line; /* the fields point into it */
	const char *token;
	Request     request;
	const char *headers[MAX_FIELDS + 1];
	Evidence    evidence;
} Job;

static void *
must(void *memory)
{
	if (memory == NULL)
		abort();
	return memory;
}

static void
take_option(Job *job, char *name)
{
	Request *r = &job->request;
	char    *value = strchr(name, '=');

	if (value == NULL)
		abort();
	*value++ = '\0';
	if (strcmp(name, "header") == 0)
	{
		const char **line = job->headers;

		while (*line != NULL)
			line++;
		*line = value;
	}
	else if (strcmp(name, "body") == 0)
	{
		r->body = value;
		r->body_len = strlen(value);
	}
	else if (strcmp(name, "size") == 0)
	{
		r->body_len = atol(value);
		r->body = memset(must(malloc(r->body_len)), 'x', r->body_len);
	}
	else if (strcmp(name, "connect") == 0)
		r->connect_timeout = atol(value) * 1000;
	else if (strcmp(name, "total") == 0)
		r->total_timeout = atol(value) * 1000;
	else if (strcmp(name, "before") == 0)
		r->send_before = clock_steady() + atol(value) * 1000;
	else if (strcmp(name, "limit") == 0)
		r->response_limit = atol(value);
	else if (strcmp(name, "ca") == 0)
		r->ca_file = value;
	else if (strcmp(name, "proxy") == 0)
		r->proxy = value;
	else
		abort();
}

static Job *
make_job(char *token, char *rest)
{
	Job  *job = must(calloc(1, sizeof(Job)));
	char *option;

	job->token = token;
	job->request = (Request){.method = strtok_r(rest, "\t\n", &rest),
	                         .url = strtok_r(NULL, "\t\n", &rest),
	                         .headers = job->headers,
	                         .connect_timeout = 2000000,
	                         .total_timeout = 5000000,
	                         .response_limit = 1024 * 1024,
	                         .send_before = clock_steady() + 5000000};
	while ((option = strtok_r(NULL, "\t\n", &rest)) != NULL)
		take_option(job, option);
	return job;
}

/* ----------------------------------------------------------------- evidence */

static void
print_bytes(const char *name, const char *data, size_t len)
{
	printf(", \"%s\": \"", name);
	for (size_t i = 0; i < len; i++)
	{
		unsigned char c = data[i];

		if (c < 32 || c > 126 || c == '"' || c == '\\')
			printf("\\u%04x", c);
		else
			putchar(c);
	}
	putchar('"');
}

static void
print_evidence(const Job *job)
{
	static const char *const phases[] = {"none", "resolve", "connect", "tls",
	                                     "sent", "head", "done"};
	const Evidence          *e = &job->evidence;

	printf("{\"token\": \"%s\", \"sent\": %d, \"too_late\": %d, \"cut\": %d, \"phase\": \"%s\"",
	       job->token, e->sent, e->too_late, e->cut, phases[e->phase]);
	printf(", \"code\": %d, \"status\": %d, \"bytes_sent\": %lld, \"retry_after\": %d",
	       e->curl_code, e->http_status, (long long) e->bytes_sent, e->retry_after);
	printf(", \"connect_us\": %d, \"first_byte_us\": %d, \"total_us\": %d, \"took_us\": %lld",
	       e->connect_us, e->first_byte_us, e->total_us,
	       (long long) (e->finished_at - e->started_at));
	print_bytes("peer", e->peer, strlen(e->peer));
	print_bytes("error", e->error, strlen(e->error));
	print_bytes("headers", e->headers, e->headers_len);
	print_bytes("body", e->body, e->body_len);
	printf("}\n");
	fflush(stdout);
}

/* --------------------------------------------------------------------- loop */

static long turns = 0;

static void
turn(void)
{
	struct pollfd fd = {.fd = transport_descriptor(), .events = POLLIN};

	poll(&fd, 1, (int) transport_timeout());
	transport_run();
	turns++;
}

static void
run(void)
{
	Job *job;

	while (transport_in_flight() > 0)
	{
		turn();
		while ((job = transport_next()) != NULL)
		{
			print_evidence(job);
			transport_forget(&job->evidence);
			free(job);
		}
	}
	printf("\n");
	fflush(stdout);
}

static void
bench(char *rest)
{
	long            count = atol(strtok_r(rest, "\t", &rest));
	int             places = atoi(strtok_r(NULL, "\t", &rest));
	Job            *model = make_job("bench", rest);
	Job            *job;
	long            sent = 0, fine = 0;
	struct timespec from, to;
	double          seconds;

	turns = 0;
	clock_gettime(CLOCK_MONOTONIC, &from);
	model->request.send_before = PG_INT64_MAX;
	for (; sent < places && sent < count; sent++)
	{
		job = must(malloc(sizeof(Job)));
		*job = *model;
		transport_send(&job->request, &job->evidence, job);
	}
	while (transport_in_flight() > 0)
	{
		turn();
		while ((job = transport_next()) != NULL)
		{
			fine += job->evidence.http_status == 200 && job->evidence.phase == PHASE_DONE;
			transport_forget(&job->evidence);
			if (sent++ < count)
				transport_send(&job->request, &job->evidence, job);
			else
				free(job);
		}
	}
	clock_gettime(CLOCK_MONOTONIC, &to);
	seconds = (to.tv_sec - from.tv_sec) + (to.tv_nsec - from.tv_nsec) / 1e9;
	printf("{\"fine\": %ld, \"per_second\": %.0f, \"turns\": %ld}\n\n", fine, count / seconds, turns);
	fflush(stdout);
}

int
main(void)
{
	char line[65536];

	signal(SIGPIPE, SIG_IGN); /* as in a background worker */
	transport_start();
	while (fgets(line, sizeof(line), stdin) != NULL)
	{
		char *rest = must(strdup(line));
		char *command = strtok_r(rest, "\t\n", &rest);
		char *token;
		Job  *job;

		if (strcmp(command, "run") == 0)
			run();
		else if (strcmp(command, "bench") == 0)
			bench(rest);
		else if (strcmp(command, "send") == 0)
		{
			token = strtok_r(NULL, "\t", &rest);
			job = make_job(token, rest);
			transport_send(&job->request, &job->evidence, job);
		}
	}
	fflush(stdout);
	_exit(0); /* as a worker leaves: curl's threads may still run */
}
