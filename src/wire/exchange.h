/*
 * exchange.h - what goes out and what comes back: one request, its evidence.
 */
#ifndef OPL_EXCHANGE_H
#define OPL_EXCHANGE_H

#include "postgres.h"

#include "datatype/timestamp.h"

/* One request. Everything it points to outlives the exchange. */
typedef struct Request
{
	const char  *method;
	const char  *url;
	const char **headers; /* "Name: value" lines, NULL at the end */
	const char  *body;    /* bytes, not text; NULL: none */
	size_t       body_len;
	const char  *ca_file;         /* NULL: the system's */
	const char  *proxy;           /* NULL: none, whatever the environment says */
	int64        connect_timeout; /* microseconds */
	int64        total_timeout;   /* microseconds, from the hand-over to the wire */
	size_t       response_limit;  /* bytes of body that are kept */
	int64        send_before;     /* steady: claim + margin, not handed over later */
} Request;

/* How far an exchange got before it ended. */
typedef enum Phase
{
	PHASE_NONE,    /* no connection was tried */
	PHASE_RESOLVE, /* no address */
	PHASE_CONNECT, /* no TCP connection, or no tunnel */
	PHASE_TLS,     /* no trusted session */
	PHASE_SENT,    /* request bytes may have left, no answer began */
	PHASE_HEAD,    /* an answer began */
	PHASE_DONE     /* the answer is whole */
} Phase;

/* What one exchange showed. Memory belongs to the exchange. */
typedef struct Evidence
{
	bool        sent;     /* a request byte may have left: prereq returned OK */
	bool        too_late; /* not handed over: `send_before` had passed */
	bool        cut;      /* the body was longer than response_limit */
	Phase       phase;
	int         curl_code;   /* CURLcode; 0 is a whole answer */
	int         http_status; /* 0: none */
	int64       bytes_sent;  /* -1: not known */
	int         retry_after; /* seconds, 0: none said */
	char       *headers;     /* raw header lines of the last answer */
	size_t      headers_len;
	char       *body;
	size_t      body_len;
	char        peer[64]; /* address:port */
	int32       connect_us;
	int32       first_byte_us;
	int32       total_us;
	char        error[256]; /* libcurl's words; no secret is ever in it */
	TimestampTz started_at;
	TimestampTz finished_at;
} Evidence;

#endif
