/*
 * transport.h - requests in, evidence out.
 *
 * One request on the wire per exchange, one answer per request. Only
 * transport_start() raises an error; nothing palloc()s while curl is on the stack.
 */
#ifndef OPL_TRANSPORT_H
#define OPL_TRANSPORT_H

#include "wire/exchange.h"

/* Once per process. Raises an error when curl cannot be set up. */
extern void transport_start(void);

/* A descriptor that is readable when transport_run() has something to do. */
extern int transport_descriptor(void);

/* Milliseconds until transport_run() is due without that, -1: no timer. */
extern long transport_timeout(void);

/* Hand one request to the wire; it leaves with the next transport_run(). `token`
 * comes back with the evidence, whatever happens. Both structures must stay until
 * then. `evidence->sent` is true as soon as it is: a process that runs the transport
 * no more may rely on it. */
extern void transport_send(const Request *request, Evidence *evidence, void *token);

/* Let curl work on what is ready. */
extern void transport_run(void);

/* The token of an exchange that ended, or NULL. Its evidence is filled in;
 * headers and body are malloc()ed: transport_forget() frees them. */
extern void *transport_next(void);
extern void  transport_forget(Evidence *evidence);

/* Exchanges that have not come back through transport_next(). */
extern int transport_in_flight(void);

#endif
