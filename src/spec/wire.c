/*
 * wire.c - what may stand in a URL and in a header line.
 *
 * Invariants:
 *
 *  1. A base URL fixes scheme, host and port, and nothing behind it can change
 *     them: no user, query or fragment, no character that a client may read as
 *     the end of the host.
 *  2. A header line is one line: its name a token, its value without control
 *     characters.
 */
#include "postgres.h"

#include "spec/wire.h"

#include <ctype.h>

#include "lib/stringinfo.h"

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

/* RFC 9110: what a header's name is made of. */
static const bool in_token[256] = {
	['a' ... 'z'] = true, ['A' ... 'Z'] = true, ['0' ... '9'] = true, ['!'] = true,
	['#'] = true,         ['$'] = true,         ['%'] = true,         ['&'] = true,
	['\''] = true,        ['*'] = true,         ['+'] = true,         ['-'] = true,
	['.'] = true,         ['^'] = true,         ['_'] = true,         ['`'] = true,
	['|'] = true,         ['~'] = true,
};

/* RFC 3986: what a path is made of; "{" and "}" for placeholders are apart. */
#define PATH_CHARACTERS LETTERS DIGITS "-._~%!$&'()*+,;=:@/"

#define LONGEST_HOST 253

/* ------------------------------------------------------------------ URLs */

/* Behind "http://" or "https://"; NULL: it is neither. */
static const char *
behind_scheme(const char *url)
{
	if (strncmp(url, "https://", 8) == 0)
		return url + 8;
	if (strncmp(url, "http://", 7) == 0)
		return url + 7;
	return NULL;
}

/* Behind the host, which is a name, an IPv4 or a bracketed IPv6 address. */
static const char *
behind_host(const char *host)
{
	size_t len;

	if (*host != '[')
	{
		len = strspn(host, LETTERS DIGITS "-._");
		return len == 0 || len > LONGEST_HOST ? NULL : host + len;
	}
	len = strspn(host + 1, "0123456789abcdefABCDEF:.");
	return len == 0 || host[len + 1] != ']' ? NULL : host + len + 2;
}

static bool
port_ok(const char *digits, size_t len)
{
	return len >= 1 && len <= 5 && atoi(digits) >= 1 && atoi(digits) <= 65535;
}

/* A segment that a client or server may fold away: ".", "..", encoded or not. */
static bool
is_dot_segment(const char *segment, size_t len)
{
	int dots = 0;

	for (size_t i = 0; i < len; dots++)
	{
		if (segment[i] == '.')
			i++;
		else if (len - i >= 3 && pg_strncasecmp(segment + i, "%2e", 3) == 0)
			i += 3;
		else
			return false;
	}
	return dots == 1 || dots == 2;
}

static bool
has_dot_segment(const char *path)
{
	while (*path != '\0')
	{
		size_t len = strcspn(path, "/");

		if (is_dot_segment(path, len))
			return true;
		path += len;
		path += strspn(path, "/");
	}
	return false;
}

const char *
wire_base_url_fault(const char *url)
{
	const char *p = behind_scheme(url);

	if (p == NULL)
		return "must begin with https:// or http://";
	if (p[strcspn(p, "/@")] == '@')
		return "must not name a user or password";
	p = behind_host(p);
	if (p == NULL)
		return "must name a host";
	if (*p == ':')
	{
		size_t len = strspn(p + 1, DIGITS);

		if (!port_ok(p + 1, len))
			return "must have a port from 1 to 65535 behind the colon";
		p += len + 1;
	}
	if (strpbrk(p, "?#") != NULL)
		return "must not have a query or a fragment";
	if (*p != '\0' && *p != '/')
		return "must be scheme://host[:port][/prefix]";
	if (strspn(p, PATH_CHARACTERS) != strlen(p))
		return "must have no character in its prefix that a path does not have";
	if (has_dot_segment(p))
		return "must not have a segment \".\" or \"..\"";
	return NULL;
}

const char *
wire_path_fault(const char *path)
{
	if (*path != '/')
		return "must begin with /";
	if (strpbrk(path, "?#") != NULL)
		return "must not have a query or a fragment";
	if (strspn(path, PATH_CHARACTERS "{}") != strlen(path))
		return "must have no character that a path does not have";
	if (has_dot_segment(path))
		return "must not have a segment \".\" or \"..\"";
	return NULL;
}

char *
wire_last_segment(const char *url)
{
	const char    *path = strstr(url, "://");
	size_t         len = strcspn(url, "?#");
	size_t         start;
	StringInfoData out;

	path = path && path < url + len ? path + 3 + strcspn(path + 3, "/?#") : url;
	while (len > 0 && url[len - 1] == '/')
		len--;
	for (start = len; start > 0 && url[start - 1] != '/';)
		start--;
	if (url + len <= path)
		return NULL; /* a host alone */
	initStringInfo(&out);
	for (size_t i = start; i < len; i++)
	{
		unsigned char byte;

		if (url[i] != '%')
			byte = url[i];
		else if (i + 2 < len && isxdigit((unsigned char) url[i + 1]) &&
				 isxdigit((unsigned char) url[i + 2]))
		{
			char digits[] = {url[i + 1], url[i + 2], '\0'};

			byte = (unsigned char) strtoul(digits, NULL, 16);
			i += 2;
		}
		else
			return NULL;
		if (byte < ' ' || byte == 0x7f)
			return NULL;
		appendStringInfoCharMacro(&out, byte);
	}
	return out.len > 0 ? out.data : NULL;
}

bool
wire_is_plain(const char *url)
{
	return strncmp(url, "http://", 7) == 0;
}

/* Beginnings of hosts that are not out in the world. */
static const char *const private_hosts[] = {
	"localhost", "127.",    "10.",     "192.168.", "169.254.", "0.",      "[::1]",
	"[fc",       "[fd",     "[fe80:",  "[::ffff:", "172.16.",  "172.17.", "172.18.",
	"172.19.",   "172.20.", "172.21.", "172.22.",  "172.23.",  "172.24.", "172.25.",
	"172.26.",   "172.27.", "172.28.", "172.29.",  "172.30.",  "172.31."};

bool
wire_host_is_private(const char *url)
{
	const char *host = behind_scheme(url);

	if (host == NULL)
		return false;
	for (int i = 0; i < lengthof(private_hosts); i++)
	{
		if (pg_strncasecmp(host, private_hosts[i], strlen(private_hosts[i])) == 0)
			return true;
	}
	/* A name without a dot is one of this network. */
	return host[strcspn(host, "./:")] != '.' && *host != '[';
}

/* --------------------------------------------------------------- headers */

#define SECRET_HEADER \
	"A secret is never kept in a table: \"auth\" and \"secret\" send it."
#define TRANSPORT_HEADER "The transport sets it."

/* Headers that a spec does not set, and why. */
static const struct
{
	const char *name;
	const char *reason;
} taken_headers[] = {
	{"authorization", SECRET_HEADER},
	{"proxy-authorization", SECRET_HEADER},
	{"cookie", SECRET_HEADER},
	{"connection", TRANSPORT_HEADER},
	{"content-length", TRANSPORT_HEADER},
	{"expect", TRANSPORT_HEADER},
	{"host", TRANSPORT_HEADER},
	{"keep-alive", TRANSPORT_HEADER},
	{"proxy-connection", TRANSPORT_HEADER},
	{"te", TRANSPORT_HEADER},
	{"trailer", TRANSPORT_HEADER},
	{"transfer-encoding", TRANSPORT_HEADER},
	{"upgrade", TRANSPORT_HEADER},
};

const char *
wire_header_taken(const char *name)
{
	for (int i = 0; i < lengthof(taken_headers); i++)
	{
		if (pg_strcasecmp(name, taken_headers[i].name) == 0)
			return taken_headers[i].reason;
	}
	return NULL;
}

static const char *
name_fault(const char *name, size_t len)
{
	if (len == 0)
		return "has no name";
	for (size_t i = 0; i < len; i++)
	{
		if (!in_token[(unsigned char) name[i]])
			return "has a character in its name that no header name has";
	}
	return NULL;
}

const char *
wire_name_fault(const char *name)
{
	return name_fault(name, strlen(name));
}

const char *
wire_value_fault(const char *value)
{
	if (strpbrk(value, "\r\n") != NULL)
		return "has a line break in its value";
	for (const char *p = value; *p != '\0'; p++)
	{
		if (((unsigned char) *p < ' ' && *p != '\t') || *p == 0x7f)
			return "has a control character in its value";
	}
	if (value[strspn(value, " \t")] == '\0')
		return "has no value";
	return NULL;
}

const char *
wire_header_fault(const char *line)
{
	const char *colon = strchr(line, ':');
	const char *fault;

	if (colon == NULL)
		return "has no colon behind its name";
	fault = name_fault(line, colon - line);
	if (fault != NULL)
		return fault;
	return wire_value_fault(colon + 1);
}
