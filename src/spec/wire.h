/*
 * wire.h - what may stand in a URL and in a header line.
 */
#ifndef OPL_WIRE_H
#define OPL_WIRE_H

#include "postgres.h"

/* Each answers the first fault in words ("has …", "is …"), or NULL. None of
 * them shows the value. */
extern const char *wire_base_url_fault(const char *url);
extern const char *wire_path_fault(const char *path);
extern const char *wire_name_fault(const char *name);   /* of a header */
extern const char *wire_value_fault(const char *value); /* of a header */
extern const char *wire_header_fault(const char *line); /* "Name: value" */

/* Why the transport, or "auth", keeps a header to itself, as a sentence; NULL: it
 * does not. */
extern const char *wire_header_taken(const char *name);

/* Does the URL's host name the machine itself or a private network? By what is
 * written; names are not resolved. */
extern bool wire_host_is_private(const char *url);

/* The last segment of the path of a URL or of a path alone, decoded; NULL: there is
 * none that could name something. */
extern char *wire_last_segment(const char *url);

/* Does the URL go out without TLS? */
extern bool wire_is_plain(const char *url);

#endif
