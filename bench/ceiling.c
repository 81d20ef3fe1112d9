/*
 * ceiling.c - what the wire allows: the same requests from bare libcurl.
 *
 *	  ceiling URL REQUESTS IN_FLIGHT BODY_FILE [RATE]
 *
 * One thread, easy handles used again, connections kept, nothing written down.
 * With a RATE: that many a second, one at a time, for their latency. Prints one
 * line of JSON.
 */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define MAX_IN_FLIGHT 1024

static char   body[64 * 1024];
static size_t body_len;
static long   started, finished, total, wrong;
static CURLM *multi;
static long  *took; /* microseconds, of each request */

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static double
cpu(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return u.ru_utime.tv_sec + u.ru_stime.tv_sec +
		   (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void
die(const char *what)
{
	fprintf(stderr, "ceiling: %s\n", what);
	exit(1);
}

static size_t
swallow(char *data, size_t size, size_t n, void *userp)
{
	return size * n;
}

/* The headers that op_ledger sends with such an operation. */
static CURL *
make_easy(const char *url)
{
	CURL              *easy = curl_easy_init();
	struct curl_slist *headers = NULL;

	headers = curl_slist_append(headers, "Content-Type: application/json");
	headers = curl_slist_append(headers, "Idempotency-Key: ceiling-1-1");
	headers = curl_slist_append(headers, "Authorization: Bearer sk_test_not_a_real_secret");
	headers = curl_slist_append(headers, "Expect:");
	curl_easy_setopt(easy, CURLOPT_URL, url);
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body);
	curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, (long) body_len);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, swallow);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	return easy;
}

static void
launch(CURL *easy)
{
	if (started == total)
		return;
	started++;
	curl_multi_add_handle(multi, easy);
}

static void
land(CURLMsg *message)
{
	CURL      *easy = message->easy_handle;
	long       status = 0;
	curl_off_t us = 0;

	curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(easy, CURLINFO_TOTAL_TIME_T, &us);
	if (message->data.result != CURLE_OK || status != 200)
		wrong++;
	took[finished++] = us;
	curl_multi_remove_handle(multi, easy);
	launch(easy);
}

/* As many at once as there are handles. */
static void
flood(void)
{
	while (finished < total)
	{
		CURLMsg *message;
		int      running, left;

		curl_multi_perform(multi, &running);
		while ((message = curl_multi_info_read(multi, &left)) != NULL)
			land(message);
		if (finished < total)
			curl_multi_poll(multi, NULL, 0, 1000, NULL);
	}
}

static void
sleep_until(double moment)
{
	struct timespec t = {(time_t) moment, (long) ((moment - (time_t) moment) * 1e9)};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

/* One after the other, at their times. */
static void
stroll(CURL *easy, double rate)
{
	double begin = now();

	while (finished < total)
	{
		double at;

		sleep_until(begin + finished / rate);
		at = now();
		if (curl_easy_perform(easy) != CURLE_OK)
			wrong++;
		took[finished++] = (long) ((now() - at) * 1e6);
	}
}

static int
by_size(const void *a, const void *b)
{
	long x = *(const long *) a, y = *(const long *) b;

	return (x > y) - (x < y);
}

int
main(int argc, char **argv)
{
	int    in_flight = argc > 3 ? atoi(argv[3]) : 0;
	FILE  *file = argc > 4 ? fopen(argv[4], "r") : NULL;
	double begin, spent;

	if (file == NULL || in_flight < 1 || in_flight > MAX_IN_FLIGHT)
		die("usage: ceiling URL REQUESTS IN_FLIGHT BODY_FILE [RATE]");
	body_len = fread(body, 1, sizeof(body), file);
	total = atol(argv[2]);
	took = calloc(total, sizeof(long));
	curl_global_init(CURL_GLOBAL_DEFAULT);
	multi = curl_multi_init();
	curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long) in_flight);
	begin = now();
	spent = cpu();
	if (argc > 5)
		stroll(make_easy(argv[1]), atof(argv[5]));
	else
	{
		for (int i = 0; i < in_flight; i++)
			launch(make_easy(argv[1]));
		flood();
	}
	spent = cpu() - spent;
	begin = now() - begin;
	if (wrong > 0)
		die("some requests were not answered with 200");
	qsort(took, total, sizeof(long), by_size);
	printf("{\"per_second\": %.0f, \"cpu_us\": %.2f, \"p50_us\": %ld, \"p99_us\": %ld}\n",
		   total / begin, spent * 1e6 / total, took[total / 2], took[total * 99 / 100]);
	return 0;
}
