/*
 * transport.c - requests in, evidence out; the only file that knows libcurl.
 *
 * Invariants:
 *
 *  1. One exchange is at most one request on the wire. libcurl repeats a request
 *     by itself (a reused connection that turns out dead, 417, 401), and calls
 *     before_request() ahead of each: the second one is aborted there.
 *  2. One answer belongs to one request. A kept connection may hold an answer
 *     nobody asked for; libcurl would take it for ours, and give every later
 *     exchange its predecessor's answer. So a connection that has anything to
 *     say before we asked is never used: nothing was sent yet, and the exchange
 *     goes on over a new one.
 *  3. `sent` means that before_request() said yes. No CURLcode, no counter
 *     stands in for that: most codes come both before and after the send.
 *  4. While curl is on the stack nothing here raises, palloc()s or jumps, and
 *     every signal is blocked: resolver threads inherit that mask, so no
 *     PostgreSQL handler ever runs in one of them.
 *
 * An exchange: queued -> in curl -> finished -> handed back, by transport_send(),
 * start(), settle() and transport_next(). Only a stale connection takes it from
 * settle() to start() once more. No step can lose it: where memory is short it
 * comes back as not sent.
 */
#include "postgres.h"

#include <ctype.h>
#include <curl/curl.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <strings.h>
#include <sys/epoll.h>
#include <time.h>

#include "base/clock.h"
#include "base/compat.h"
#include "lib/ilist.h"
#include "wire/sockets.h"
#include "storage/fd.h"
#include "wire/transport.h"

/* Transfers are made by the block; each may hold one connection. */
#define BLOCK 16

#define HEADERS_LIMIT (64 * 1024)

/* Servers close idle connections after 5 to 75 s; leave before most do. */
#define IDLE_SECONDS 30L

/* A busy connection would otherwise keep a provider's old address for ever. */
#define LIFETIME_SECONDS 600L

/* Why an exchange was ended by us and not by curl. */
typedef enum Abort
{
	ABORT_NONE,
	ABORT_UNFIT, /* not a request we put on a wire */
	ABORT_MEMORY,
	ABORT_LATE,   /* send_before has passed */
	ABORT_STALE,  /* the connection spoke first, or is closed */
	ABORT_REPEAT, /* libcurl's own second request */
	ABORT_CUT,    /* the body is longer than its limit */
	ABORT_TORN    /* the connection ended inside the headers */
} Abort;

static const char *const abort_words[] = {
	[ABORT_UNFIT] = "not sent: a header is not one line, or the method is not one word",
	[ABORT_MEMORY] = "out of memory",
	[ABORT_LATE] = "not sent: too late after its claim",
	[ABORT_STALE] = "not sent: the server spoke or closed before it was asked",
	[ABORT_REPEAT] = "libcurl was about to send the request again",
	[ABORT_CUT] = "the answer is longer than the limit",
	[ABORT_TORN] = "the connection ended before the headers of an answer did",
};

/* Bytes that grow; the memory ends up in the evidence. */
typedef struct Buffer
{
	char  *data; /* always followed by a NUL once it is not NULL */
	size_t len;
	size_t capacity;
} Buffer;

/* An exchange as curl has it. Made once, used again and again. */
typedef struct Transfer
{
	slist_node         node; /* free, queued or finished */
	CURL              *easy; /* with the fixed options */
	const Request     *request;
	Evidence          *evidence;
	void              *token;
	CURLU             *parsed; /* the URL of the last request that had another */
	Buffer             url;    /* as it was written; empty: `easy` has none */
	struct curl_slist *lines;  /* an array that is linked up: no copies */
	int                lines_size;
	bool               own_ca; /* the handle's CA or proxy is not the default */
	bool               own_proxy;
	bool               fresh;     /* on a new connection, whatever is kept */
	bool               connected; /* TCP: this or an earlier connection of it */
	bool               in_header; /* of an answer, not of a 1xx */
	bool               head_done; /* the blank line after an answer's headers came */
	Abort              abort;
	int64              deadline; /* of the whole exchange, monotonic */
	Buffer             headers;
	Buffer             body;
	char               error[CURL_ERROR_SIZE];
} Transfer;

/* What stands in the evidence of an exchange that could not even be queued. */
typedef struct Stranded
{
	struct Stranded *next;
	void            *token;
} Stranded;

StaticAssertDecl(sizeof(Stranded) <= sizeof(Evidence), "evidence has room for it");

static CURLM      *multi = NULL;
static int64       timer_at = -1; /* by the steady clock, -1: none */
static int         in_flight = 0;
static int         pool_size = 0;
static Stranded   *stranded = NULL;
static const char *default_ca_file; /* libcurl's own; what a CA of ours replaces */
static const char *default_ca_path;

static slist_head free_transfers = SLIST_STATIC_INIT(free_transfers);

/* First in, first out. */
typedef struct Queue
{
	slist_head  head;
	slist_node *tail;
} Queue;

static Queue queued = {SLIST_STATIC_INIT(queued.head), NULL};
static Queue finished = {SLIST_STATIC_INIT(finished.head), NULL};

/* ------------------------------------------------------------------- tools */

static void
block_signals(sigset_t *before)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, before);
}

static void
restore_signals(const sigset_t *before)
{
	pthread_sigmask(SIG_SETMASK, before, NULL);
}

static void
queue_push(Queue *queue, Transfer *t)
{
	if (slist_is_empty(&queue->head))
		slist_push_head(&queue->head, &t->node);
	else
		slist_insert_after(queue->tail, &t->node);
	queue->tail = &t->node;
}

static Transfer *
queue_pop(Queue *queue)
{
	if (slist_is_empty(&queue->head))
		return NULL;
	return slist_container(Transfer, node, slist_pop_head_node(&queue->head));
}

/* False: out of memory, and nothing changed. */
static bool
buffer_append(Buffer *b, const char *data, size_t len)
{
	if (b->len + len + 1 > b->capacity)
	{
		size_t capacity = Max(Max(b->len + len + 1, 2 * b->capacity), 512);
		char  *grown = realloc(b->data, capacity);

		if (grown == NULL)
			return false;
		b->data = grown;
		b->capacity = capacity;
	}
	memcpy(b->data + b->len, data, len);
	b->len += len;
	b->data[b->len] = '\0';
	return true;
}

static int64
info_number(CURL *easy, CURLINFO info)
{
	curl_off_t value = 0;

	curl_easy_getinfo(easy, info, &value);
	return value;
}

static int32
clip(int64 value)
{
	return (int32) Min(Max(value, 0), INT_MAX);
}

static long
info_long(CURL *easy, CURLINFO info)
{
	long value = 0;

	curl_easy_getinfo(easy, info, &value);
	return value;
}

/* ------------------------------------------------------------------ events */

/* NULL for a handle of curl's own: newer ones close connections with one. */
static Transfer *
transfer_of(CURL *easy)
{
	char *t = NULL;

	curl_easy_getinfo(easy, CURLINFO_PRIVATE, &t);
	return (Transfer *) t;
}

/* While it connects, curl waits to write and for nothing else: this shows when
 * TCP is there. curl's own time of it is set after TLS, too late to tell the two
 * apart. */
static int
on_interest(CURL *easy, curl_socket_t fd, int what, void *userp, void *socketp)
{
	Transfer *t = transfer_of(easy);
	uint32    events = 0;

	if (what == CURL_POLL_IN || what == CURL_POLL_INOUT)
		events |= EPOLLIN;
	if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT)
		events |= EPOLLOUT;
	if (t != NULL && (events & EPOLLIN) != 0 && sockets_is_ours(fd))
		t->connected = true;
	return sockets_want(fd, events) ? 0 : -1;
}

static int
on_timer(CURLM *handle, long timeout_ms, void *userp)
{
	timer_at = timeout_ms < 0 ? -1 : clock_steady() + timeout_ms * INT64CONST(1000);
	return 0;
}

static curl_socket_t
on_open(void *userp, curlsocktype purpose, struct curl_sockaddr *address)
{
	int fd = sockets_open(address->family, address->socktype, address->protocol);

	return fd < 0 ? CURL_SOCKET_BAD : fd;
}

static int
on_close(void *userp, curl_socket_t fd)
{
	return sockets_close(fd);
}

static void
act_on_sockets(void)
{
	Ready ready[READY_MAX];
	int   count = sockets_ready(ready);
	int   running;

	for (int i = 0; i < count; i++)
	{
		int what = 0;

		if (ready[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
			what |= CURL_CSELECT_IN;
		if (ready[i].events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
			what |= CURL_CSELECT_OUT;
		curl_multi_socket_action(multi, ready[i].fd, what, &running);
	}
}

static void
act_on_timer(void)
{
	int running;

	if (timer_at < 0 || clock_steady() < timer_at)
		return;
	timer_at = -1;
	curl_multi_socket_action(multi, CURL_SOCKET_TIMEOUT, 0, &running);
}

/* --------------------------------------------------- before and after sends */

/* No TLS on the connection, neither to the provider nor to a proxy. */
static bool
is_plain(const Request *request)
{
	return strncasecmp(request->url, "http:", 5) == 0 &&
		   (request->proxy == NULL || strncasecmp(request->proxy, "https:", 6) != 0);
}

/* Whether TLS has decrypted bytes that curl did not read: a stray answer behind
 * a body of known length, which the socket no longer shows. The TLS library is
 * libcurl's choice, so it is asked by name; where that fails the answer is yes,
 * and every exchange has its own connection. */
static bool
tls_may_hold_bytes(CURL *easy)
{
	static int (*ssl_pending)(const void *) = NULL;
	struct curl_tlssessioninfo *session = NULL;

	if (ssl_pending == NULL)
		ssl_pending = (int (*)(const void *)) dlsym(RTLD_DEFAULT, "SSL_pending");
	if (ssl_pending == NULL ||
		curl_easy_getinfo(easy, CURLINFO_TLS_SSL_PTR, &session) != CURLE_OK ||
		session->backend != CURLSSLBACKEND_OPENSSL || session->internals == NULL)
		return true;
	return ssl_pending(session->internals) > 0;
}

/* Whether the connection has something to say before it was asked, or is closed.
 * A new TLS connection may: its session tickets. */
static bool
connection_is_stale(Transfer *t, int local_port, int peer_port)
{
	int fd = sockets_find(local_port, peer_port);

	if (fd < 0)
		return !t->fresh; /* cannot tell: take one that is new */
	if (sockets_first_use(fd) && !is_plain(t->request))
		return false;
	if (sockets_spoke(fd))
		return true;
	return !is_plain(t->request) && tls_may_hold_bytes(t->easy);
}

static int
refuse(Transfer *t, Abort why)
{
	t->abort = why;
	return CURL_PREREQFUNC_ABORT;
}

/* The gate in front of the wire: libcurl calls it when a connection is there and
 * the next thing is the first byte of a request. */
static int
before_request(void *userp, char *peer_ip, char *local_ip, int peer_port, int local_port)
{
	Transfer *t = userp;
	Evidence *e = t->evidence;

	if (e->sent)
		return refuse(t, ABORT_REPEAT);
	snprintf(e->peer, sizeof(e->peer), strchr(peer_ip, ':') ? "[%s]:%d" : "%s:%d",
			 peer_ip, peer_port);
	if (clock_steady() > t->request->send_before)
		return refuse(t, ABORT_LATE);
	if (connection_is_stale(t, local_port, peer_port))
		return refuse(t, ABORT_STALE);
	e->sent = true;
	return CURL_PREREQFUNC_OK;
}

static int
status_of(const char *line, size_t len)
{
	const char *c = memchr(line, ' ', len);
	int         status = 0;

	while (c != NULL && ++c < line + len && isdigit((unsigned char) *c))
		status = Min(status * 10 + (*c - '0'), 1000);
	return status;
}

/* Keeps the lines of the last answer. A 1xx is no answer, and what comes after
 * the body (trailers) is no header. */
static size_t
take_header(char *line, size_t size, size_t n, void *userp)
{
	Transfer *t = userp;
	size_t    len = size * n;

	if (len >= 5 && memcmp(line, "HTTP/", 5) == 0)
	{
		int status = status_of(line, len);

		t->in_header = status >= 200 || status == 101;
		if (!t->in_header)
			return len;
		t->evidence->http_status = status;
		t->headers.len = 0;
		t->head_done = false;
	}
	if (!t->in_header)
		return len;
	if (len <= 2 && (line[0] == '\r' || line[0] == '\n'))
	{
		t->in_header = false;
		t->head_done = true;
	}
	else if (t->headers.len + len <= HEADERS_LIMIT &&
			 !buffer_append(&t->headers, line, len))
	{
		t->abort = ABORT_MEMORY;
		return 0;
	}
	return len;
}

static size_t
take_body(char *data, size_t size, size_t n, void *userp)
{
	Transfer *t = userp;
	size_t    len = size * n;
	size_t    room = t->request->response_limit - t->body.len;

	if (!buffer_append(&t->body, data, Min(len, room)))
	{
		t->abort = ABORT_MEMORY;
		return 0;
	}
	if (len <= room)
		return len;
	t->abort = ABORT_CUT;
	return 0;
}

/* ----------------------------------------------------------------- options */

/* What never changes, and why. */
static const struct
{
	CURLoption option;
	long       value;
} fixed_options[] = {
	{CURLOPT_NOSIGNAL, 1}, /* signals are PostgreSQL's */
	OPL_CURL_QUICK_EXIT,   /* a dead name server holds up no loop and no exit */
	{CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1}, /* HTTP/2 repeats refused streams */
	{CURLOPT_FOLLOWLOCATION, 0},           /* a redirect repeats the request elsewhere */
	{CURLOPT_SSL_VERIFYPEER, 1},           /* explicit: */
	{CURLOPT_SSL_VERIFYHOST, 2},           /* nobody else gets the secret */
	{CURLOPT_DISALLOW_USERNAME_IN_URL, 1}, /* Authorization is a header of ours */
	{CURLOPT_NETRC, CURL_NETRC_IGNORED},   /* so is this */
	{CURLOPT_HEADEROPT, CURLHEADER_SEPARATE}, /* no header of ours goes to a proxy */
	{CURLOPT_SUPPRESS_CONNECT_HEADERS, 1},    /* a proxy's answer is not the provider's */
	{CURLOPT_HTTP09_ALLOWED, 0},              /* an answer has a status */
	{CURLOPT_MAXAGE_CONN, IDLE_SECONDS},
	{CURLOPT_MAXLIFETIME_CONN, LIFETIME_SECONDS},
};

/* A refused option is an error: each of them carries a promise. */
#define SET(option, value)                                         \
	do                                                             \
	{                                                              \
		if (curl_easy_setopt(easy, (option), (value)) != CURLE_OK) \
			return false;                                          \
	} while (0)

static bool
set_fixed_options(CURL *easy, Transfer *t)
{
	for (int i = 0; i < lengthof(fixed_options); i++)
		SET(fixed_options[i].option, fixed_options[i].value);
	SET(OPL_CURL_PROTOCOLS, OPL_CURL_PROTOCOL_NAMES);
	SET(CURLOPT_PROXY, "");   /* or http_proxy of the environment is obeyed */
	SET(CURLOPT_NOPROXY, ""); /* and no_proxy, when the spec names a proxy */
	SET(CURLOPT_PRIVATE, t);
	SET(CURLOPT_ERRORBUFFER, t->error);
	SET(CURLOPT_PREREQFUNCTION, before_request);
	SET(CURLOPT_PREREQDATA, t);
	SET(CURLOPT_OPENSOCKETFUNCTION, on_open);
	SET(CURLOPT_CLOSESOCKETFUNCTION, on_close);
	SET(CURLOPT_HEADERFUNCTION, take_header);
	SET(CURLOPT_HEADERDATA, t);
	SET(CURLOPT_WRITEFUNCTION, take_body);
	SET(CURLOPT_WRITEDATA, t);
	return true;
}

/* These methods say "Content-Length: 0" when they carry nothing. */
static bool
says_length(const Request *request)
{
	return request->body != NULL || strcmp(request->method, "POST") == 0 ||
		   strcmp(request->method, "PUT") == 0 || strcmp(request->method, "PATCH") == 0;
}

static size_t
length_of_body(const Request *request)
{
	return request->body != NULL ? request->body_len : 0;
}

static bool
set_method(CURL *easy, const Request *request)
{
	const char *method = request->method;

	if (says_length(request))
	{
		SET(CURLOPT_POST, 1L);
		SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t) length_of_body(request));
		SET(CURLOPT_POSTFIELDS, request->body ? request->body : "");
		SET(CURLOPT_CUSTOMREQUEST, strcmp(method, "POST") == 0 ? NULL : method);
	}
	else
	{
		SET(CURLOPT_HTTPGET, 1L);
		SET(CURLOPT_NOBODY, strcmp(method, "HEAD") == 0 ? 1L : 0L);
		SET(CURLOPT_CUSTOMREQUEST,
			strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0 ? NULL : method);
	}
	return true;
}

/* A CA file replaces the system's trust, it does not add to it. */
static bool
set_trust_and_proxy(CURL *easy, Transfer *t)
{
	const Request *request = t->request;

	if (request->ca_file != NULL || t->own_ca)
	{
		SET(CURLOPT_CAINFO, request->ca_file ? request->ca_file : default_ca_file);
		if (default_ca_path != NULL)
			SET(CURLOPT_CAPATH, request->ca_file ? NULL : default_ca_path);
		t->own_ca = request->ca_file != NULL;
	}
	if (request->proxy != NULL || t->own_proxy)
	{
		SET(CURLOPT_PROXY, request->proxy ? request->proxy : "");
		t->own_proxy = request->proxy != NULL;
	}
	return true;
}

/* As curl itself parses what it is given as text. */
#define URL_FLAGS (CURLU_GUESS_SCHEME | CURLU_NON_SUPPORT_SCHEME | CURLU_DISALLOW_USER)

/* curl parses a URL given as text for every transfer and writes it down again, a
 * seventh of all that it does. Most requests go where the last one went, so that is
 * kept parsed; by a new handle, for an old one takes what is no URL for a relative
 * one. Text it stays where curl has to say what is wrong with it, and with an address
 * in brackets: 7.88 copies a parsed one without its zone. */
static bool
set_url(CURL *easy, Transfer *t)
{
	const char *url = t->request->url;
	bool        parsed;

	if (t->url.len > 0 && strcmp(t->url.data, url) == 0)
		return true;
	t->url.len = 0;
	curl_url_cleanup(t->parsed);
	t->parsed = curl_url();
	parsed = t->parsed != NULL && strchr(url, '[') == NULL &&
			 curl_url_set(t->parsed, CURLUPART_URL, url, URL_FLAGS) == CURLUE_OK;
	SET(CURLOPT_URL, parsed ? NULL : url);
	SET(CURLOPT_CURLU, parsed ? t->parsed : NULL);
	return buffer_append(&t->url, url, strlen(url));
}

/* curl takes 0 for its default, and that is minutes. */
static long
timeout_ms(int64 us)
{
	return (long) Min(Max((us + 999) / 1000, 1), INT_MAX);
}

static bool
set_request_options(Transfer *t)
{
	CURL *easy = t->easy;

	SET(CURLOPT_HTTPHEADER, t->lines);
	SET(CURLOPT_CONNECTTIMEOUT_MS, timeout_ms(t->request->connect_timeout));
	SET(CURLOPT_TIMEOUT_MS, timeout_ms(t->deadline - clock_steady()));
	SET(CURLOPT_FRESH_CONNECT, t->fresh ? 1L : 0L);
	return set_url(easy, t) && set_method(easy, t->request) &&
		   set_trust_and_proxy(easy, t);
}

static bool
names_header(const char *line, const char *name)
{
	size_t len = strlen(name);

	return (line[0] ^ name[0]) % 32 == 0 && /* most differ in their first letter */
		   strncasecmp(line, name, len) == 0 && line[len] == ':';
}

/* How the request is framed and whether it waits for a 100 is not the spec's
 * business: a wrong length makes two requests of one. */
static bool
is_framing(const char *line)
{
	return names_header(line, "Expect") || names_header(line, "Content-Length") ||
		   names_header(line, "Transfer-Encoding") || names_header(line, "Upgrade");
}

static bool
reserve_lines(Transfer *t, int count)
{
	struct curl_slist *grown;

	if (count <= t->lines_size)
		return true;
	grown = realloc(t->lines, count * sizeof(struct curl_slist));
	if (grown == NULL)
		return false;
	t->lines = grown;
	t->lines_size = count;
	return true;
}

/* A name alone tells curl to leave the header out. */
static char no_expect[] = "Expect:";
static char no_content_type[] = "Content-Type:";

/* The header lines as curl wants them, without copying one. */
static bool
link_lines(Transfer *t)
{
	const char **headers = t->request->headers;
	bool         typed = false;
	int          count = 0, n = 0;

	while (headers != NULL && headers[count] != NULL)
		count++;
	if (!reserve_lines(t, count + 2))
		return false;
	t->lines[n++].data = no_expect;
	for (int i = 0; i < count; i++)
	{
		if (is_framing(headers[i]))
			continue;
		typed = typed || names_header(headers[i], "Content-Type");
		t->lines[n++].data = unconstify(char *, headers[i]);
	}
	if (!typed) /* or curl calls every body a form */
		t->lines[n++].data = no_content_type;
	for (int i = 0; i < n; i++)
		t->lines[i].next = i + 1 < n ? &t->lines[i + 1] : NULL;
	return true;
}

static bool
is_word(const char *text)
{
	const char *c = text;

	while (isalpha((unsigned char) *c) || *c == '-' || *c == '_')
		c++;
	return c > text && *c == '\0';
}

/* curl hands line breaks through, and the rest of the line is a header, or a
 * second request. It drops a line that has no colon. */
static bool
is_fit(const Request *request)
{
	if (!is_word(request->method))
		return false;
	for (const char **line = request->headers; line != NULL && *line != NULL; line++)
	{
		if (strpbrk(*line, "\r\n") != NULL || strchr(*line, ':') == NULL)
			return false;
	}
	return true;
}

/* ---------------------------------------------------------------- evidence */

static bool
is_about_trust(CURLcode code)
{
	switch (code)
	{
		case CURLE_SSL_CONNECT_ERROR:
		case CURLE_SSL_CERTPROBLEM:
		case CURLE_SSL_CIPHER:
		case CURLE_PEER_FAILED_VERIFICATION:
		case CURLE_SSL_CACERT_BADFILE:
		case CURLE_SSL_ISSUER_ERROR:
			return true;
		default:
			return false;
	}
}

static bool
goes_by_proxy(const Request *request)
{
	return request->proxy != NULL && request->proxy[0] != '\0';
}

static bool
has_tunnel(const Transfer *t)
{
	return !goes_by_proxy(t->request) ||
		   info_long(t->easy, CURLINFO_HTTP_CONNECTCODE) / 100 == 2;
}

static bool
is_about_names(CURLcode code)
{
	return code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_RESOLVE_PROXY ||
		   code == CURLE_OPERATION_TIMEDOUT;
}

static Phase
phase_before_send(const Transfer *t, CURLcode code)
{
	if (info_number(t->easy, CURLINFO_NAMELOOKUP_TIME_T) == 0)
		return is_about_names(code) ? PHASE_RESOLVE : PHASE_NONE;
	if (is_about_trust(code))
		return PHASE_TLS;
	if (t->connected && has_tunnel(t) && !is_plain(t->request))
		return PHASE_TLS;
	return PHASE_CONNECT;
}

static Phase
phase_reached(const Transfer *t, CURLcode code)
{
	if (!t->evidence->sent)
		return phase_before_send(t, code);
	if (code == CURLE_OK)
		return PHASE_DONE;
	return t->evidence->http_status != 0 ? PHASE_HEAD : PHASE_SENT;
}

static size_t
decimal_len(size_t n)
{
	size_t len = 1;

	while (n >= 10)
	{
		n /= 10;
		len++;
	}
	return len;
}

/* The bytes of the request line and the headers as they leave. curl's own count
 * takes in or leaves out the body by size and by version, so it is no help. */
static int64
header_bytes(const Transfer *t)
{
	const Request *request = t->request;
	const char    *authority = strstr(request->url, "://");
	const char    *target;
	size_t         bytes;
	bool           host = true, accept = true;

	authority = authority ? authority + 3 : request->url;
	target = authority + strcspn(authority, "/?#");
	bytes = strlen(request->method) + strlen(" / HTTP/1.1\r\n\r\n") -
			(*target == '/' ? 1 : 0) + strcspn(target, "#");
	for (struct curl_slist *line = t->lines; line != NULL; line = line->next)
	{
		const char *value = strchr(line->data, ':') + 1;

		if (value[strspn(value, " \t")] == '\0')
			continue; /* curl leaves it out */
		bytes += strlen(line->data) + 2;
		host = host && !names_header(line->data, "Host");
		accept = accept && !names_header(line->data, "Accept");
	}
	if (host)
		bytes += strlen("Host: \r\n") + (target - authority);
	if (goes_by_proxy(request) && is_plain(request))
		bytes += (target - request->url) + strlen("Proxy-Connection: Keep-Alive\r\n");
	if (accept)
		bytes += strlen("Accept: */*\r\n");
	if (says_length(request))
		bytes += strlen("Content-Length: \r\n") + decimal_len(length_of_body(request));
	return bytes;
}

/* A repeat makes curl forget how much of the first body left: at most all. */
static int64
body_bytes(const Transfer *t)
{
	if (t->abort == ABORT_REPEAT)
		return length_of_body(t->request);
	return info_number(t->easy, CURLINFO_SIZE_UPLOAD_T);
}

static void
fill_peer(const Transfer *t)
{
	Evidence *e = t->evidence;
	char     *ip = NULL;

	if (e->peer[0] != '\0')
		return;
	curl_easy_getinfo(t->easy, CURLINFO_PRIMARY_IP, &ip);
	if (ip != NULL && ip[0] != '\0')
		snprintf(e->peer, sizeof(e->peer), strchr(ip, ':') ? "[%s]:%ld" : "%s:%ld", ip,
				 info_long(t->easy, CURLINFO_PRIMARY_PORT));
}

static void
fill_error(const Transfer *t, CURLcode code)
{
	const char *words = "";

	if (t->abort != ABORT_NONE)
		words = abort_words[t->abort];
	else if (code != CURLE_OK)
		words = t->error[0] != '\0' ? t->error : curl_easy_strerror(code);
	strlcpy(t->evidence->error, words, sizeof(t->evidence->error));
}

/* What curl measured. Only after a transfer: before, it tells of the last one. */
static void
measure(const Transfer *t)
{
	Evidence *e = t->evidence;
	CURL     *easy = t->easy;

	if (e->sent)
		e->bytes_sent = header_bytes(t) + body_bytes(t);
	e->retry_after = clip(info_number(easy, CURLINFO_RETRY_AFTER));
	e->connect_us = clip(info_number(easy, CURLINFO_CONNECT_TIME_T));
	if (e->http_status != 0) /* curl's moment may be one of the upload */
		e->first_byte_us = clip(info_number(easy, CURLINFO_STARTTRANSFER_TIME_T));
	e->total_us = clip(info_number(easy, CURLINFO_TOTAL_TIME_T));
	fill_peer(t);
}

static void
finish(Transfer *t, CURLcode code, Phase phase)
{
	Evidence *e = t->evidence;

	e->curl_code = code;
	e->phase = phase;
	e->too_late = t->abort == ABORT_LATE;
	e->cut = t->abort == ABORT_CUT;
	e->headers = t->headers.data;
	e->headers_len = t->headers.len;
	e->body = t->body.data;
	e->body_len = t->body.len;
	fill_error(t, code);
	e->finished_at = clock_now();
	queue_push(&finished, t);
}

/* --------------------------------------------------------------- exchanges */

/* An end that curl never heard of. */
static void
finish_unstarted(Transfer *t, CURLcode code, Abort why)
{
	t->abort = why;
	finish(t, code, PHASE_NONE);
}

static void
start(Transfer *t)
{
	t->abort = ABORT_NONE;
	t->error[0] = '\0';
	if (clock_steady() > t->request->send_before)
		finish_unstarted(t, CURLE_ABORTED_BY_CALLBACK, ABORT_LATE);
	else if (!is_fit(t->request))
		finish_unstarted(t, CURLE_BAD_FUNCTION_ARGUMENT, ABORT_UNFIT);
	else if (!link_lines(t) || !set_request_options(t) ||
			 curl_multi_add_handle(multi, t->easy) != CURLM_OK)
		finish_unstarted(t, CURLE_OUT_OF_MEMORY, ABORT_MEMORY);
}

/* curl is done with it. Nothing was sent over a stale connection: once more. */
static void
settle(CURL *easy, CURLcode code)
{
	Transfer *t = transfer_of(easy);

	curl_multi_remove_handle(multi, easy);
	if (t->abort == ABORT_STALE && !t->fresh)
	{
		t->fresh = true;
		start(t);
		return;
	}
	/* 7.88 calls an answer whole that ended inside its headers. */
	if (code == CURLE_OK && !t->head_done)
	{
		t->abort = ABORT_TORN;
		code = CURLE_PARTIAL_FILE;
	}
	measure(t);
	finish(t, code, phase_reached(t, code));
}

static void
settle_all(void)
{
	CURLMsg *message;
	int      left;

	while ((message = curl_multi_info_read(multi, &left)) != NULL)
	{
		if (message->msg == CURLMSG_DONE)
			settle(message->easy_handle, message->data.result);
	}
}

static void
start_all(void)
{
	Transfer *t;

	while ((t = queue_pop(&queued)) != NULL)
	{
		t->deadline = clock_steady() + t->request->total_timeout;
		start(t);
	}
}

static bool
make_transfer(Transfer *t)
{
	t->easy = curl_easy_init();
	if (t->easy == NULL || !set_fixed_options(t->easy, t))
		return false;
	slist_push_head(&free_transfers, &t->node);
	pool_size++;
	return true;
}

/* One more block, and a place for a connection of each. */
static void
grow_pool(void)
{
	Transfer *block = calloc(BLOCK, sizeof(Transfer));
	int       made = 0;
	sigset_t  before;

	block_signals(&before);
	while (block != NULL && made < BLOCK && make_transfer(&block[made]))
		made++;
	curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long) pool_size);
	restore_signals(&before);

	for (int i = 0; i < made; i++)
		ReserveExternalFD();
}

static Transfer *
take_transfer(void)
{
	if (slist_is_empty(&free_transfers))
		grow_pool();
	if (slist_is_empty(&free_transfers))
		return NULL;
	return slist_container(Transfer, node, slist_pop_head_node(&free_transfers));
}

/* The only memory there is for it is what it brought along. */
static void
strand(Evidence *evidence, void *token)
{
	Stranded *s = (Stranded *) evidence;

	s->next = stranded;
	s->token = token;
	stranded = s;
}

static void *
pop_stranded(void)
{
	Stranded *s = stranded;
	void     *token = s->token;
	Evidence *evidence = (Evidence *) s;

	stranded = s->next;
	memset(evidence, 0, sizeof(*evidence));
	evidence->curl_code = CURLE_OUT_OF_MEMORY;
	strlcpy(evidence->error, abort_words[ABORT_MEMORY], sizeof(evidence->error));
	evidence->started_at = evidence->finished_at = clock_now();
	return token;
}

/* --------------------------------------------------------------- interface */

static void
require_curl(bool fine, const char *detail)
{
	if (!fine)
		ereport(ERROR, (errcode(ERRCODE_EXTERNAL_ROUTINE_EXCEPTION),
						errmsg("libcurl %s cannot be used",
							   curl_version_info(CURLVERSION_NOW)->version),
						errdetail_internal("%s", detail)));
}

static bool
start_multi(void)
{
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return false;
	multi = curl_multi_init();
	if (multi == NULL)
		return false;
	OPL_CURL_MULTI_QUICK_EXIT(multi);
	return curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, on_interest) == CURLM_OK &&
		   curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, on_timer) == CURLM_OK &&
		   curl_multi_setopt(multi, CURLMOPT_PIPELINING, (long) CURLPIPE_NOTHING) ==
			   CURLM_OK;
}

void
transport_start(void)
{
	curl_version_info_data *version = curl_version_info(CURLVERSION_NOW);
	sigset_t                before;
	bool                    started;

	Assert(multi == NULL);
	require_curl(
		version->version_num >= OPL_CURL_OLDEST,
		"Version 7.80 or later is needed, to see each request before it leaves.");
	require_curl(version->features & CURL_VERSION_SSL, "It was built without TLS.");
	require_curl(version->features & CURL_VERSION_ASYNCHDNS,
				 "It was built without an asynchronous resolver.");
	default_ca_file = version->cainfo;
	default_ca_path = version->capath;

	block_signals(&before);
	started = start_multi();
	restore_signals(&before);
	require_curl(started, "It could not be set up.");
	if (!sockets_start())
		ereport(ERROR, (errcode_for_socket_access(),
						errmsg("could not create an epoll descriptor: %m")));
	grow_pool();
	require_curl(!slist_is_empty(&free_transfers),
				 "It refuses an option that is needed.");
}

int
transport_descriptor(void)
{
	return sockets_descriptor();
}

long
transport_timeout(void)
{
	int64 left;

	if (!slist_is_empty(&queued.head) || !slist_is_empty(&finished.head) ||
		stranded != NULL)
		return 0;
	if (timer_at < 0)
		return -1;
	left = timer_at - clock_steady();
	return left <= 0 ? 0 : (long) ((left + 999) / 1000);
}

void
transport_send(const Request *request, Evidence *evidence, void *token)
{
	Transfer *t = take_transfer();

	in_flight++;
	if (t == NULL)
	{
		strand(evidence, token);
		return;
	}
	memset(evidence, 0, sizeof(*evidence));
	evidence->started_at = clock_now();
	t->request = request;
	t->evidence = evidence;
	t->token = token;
	t->fresh = t->connected = false;
	t->in_header = t->head_done = false;
	t->headers = (Buffer){0};
	t->body = (Buffer){0};
	queue_push(&queued, t);
}

void
transport_run(void)
{
	sigset_t before;

	block_signals(&before);
	start_all();
	act_on_timer();
	act_on_sockets();
	settle_all();
	restore_signals(&before);
}

void *
transport_next(void)
{
	Transfer *t;

	if (stranded == NULL && slist_is_empty(&finished.head))
		return NULL;
	in_flight--;
	if (stranded != NULL)
		return pop_stranded();
	t = queue_pop(&finished);
	slist_push_head(&free_transfers, &t->node);
	return t->token;
}

void
transport_forget(Evidence *evidence)
{
	free(evidence->headers);
	free(evidence->body);
	evidence->headers = evidence->body = NULL;
	evidence->headers_len = evidence->body_len = 0;
}

int
transport_in_flight(void)
{
	return in_flight;
}
