/*
 * compat.h - the only file that asks for versions of PostgreSQL or curl.
 */
#ifndef OPL_COMPAT_H
#define OPL_COMPAT_H

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 190000
#error "op_ledger supports PostgreSQL 15 to 18"
#endif

#if PG_VERSION_NUM >= 180000
#include "storage/waiteventset.h"
#else
#include "storage/latch.h"
#endif

/* PostgreSQL 16 dropped the macro. */
#if PG_VERSION_NUM >= 160000
#define OPL_SETMASK(mask) sigprocmask(SIG_SETMASK, (mask), NULL)
#else
#define OPL_SETMASK(mask) PG_SETMASK(mask)
#endif

/* For test/transport, which has no server: PostgreSQL 16 dropped an argument. */
#if PG_VERSION_NUM >= 160000
#define OPL_ASSERTION const char *condition, const char *file, int line
#else
#define OPL_ASSERTION const char *condition, const char *type, const char *file, int line
#endif

/* PostgreSQL 18 asks whether it may be deferrable. The user includes utils/rel.h. */
#if PG_VERSION_NUM >= 180000
#define opl_primary_key(relation) RelationGetPrimaryKeyIndex((relation), false)
#else
#define opl_primary_key(relation) RelationGetPrimaryKeyIndex(relation)
#endif

/* PostgreSQL 17 ties wait event sets to resource owners, and names waits. */
#if PG_VERSION_NUM >= 170000
#define opl_create_wait_event_set(n) CreateWaitEventSet(NULL, (n))
#else
#include "utils/memutils.h"
#define opl_create_wait_event_set(n) CreateWaitEventSet(TopMemoryContext, (n))
#endif

#if PG_VERSION_NUM >= 170000
#include "utils/wait_event.h"
#define opl_wait_event(name) WaitEventExtensionNew(name)
#else
#include "utils/wait_event.h"
#define opl_wait_event(name) PG_WAIT_EXTENSION
#endif

/* PostgreSQL 18 lets a module say its name and version. */
#if PG_VERSION_NUM >= 180000
#define OPL_MODULE_MAGIC PG_MODULE_MAGIC_EXT(.name = "op_ledger", .version = "1.0")
#else
#define OPL_MODULE_MAGIC PG_MODULE_MAGIC
#endif

/* curl: for transport.c, which includes it before this file. Its versions
 * are two hexadecimal digits a part: 7.85.0 is 0x075500. */
#ifdef LIBCURL_VERSION_NUM

#define OPL_CURL_OLDEST 0x075000 /* PREREQFUNCTION */

#if LIBCURL_VERSION_NUM < OPL_CURL_OLDEST
#error "op_ledger needs libcurl 7.80 or later"
#endif

#if LIBCURL_VERSION_NUM >= 0x075500
#define OPL_CURL_PROTOCOLS CURLOPT_PROTOCOLS_STR
#define OPL_CURL_PROTOCOL_NAMES "http,https"
#else
#define OPL_CURL_PROTOCOLS CURLOPT_PROTOCOLS
#define OPL_CURL_PROTOCOL_NAMES (long) (CURLPROTO_HTTP | CURLPROTO_HTTPS)
#endif

/* A row of transport.c's options; before 7.87 one that changes nothing. */
#if LIBCURL_VERSION_NUM >= 0x075700
#define OPL_CURL_QUICK_EXIT   \
	{                         \
		CURLOPT_QUICK_EXIT, 1 \
	}
#else
#define OPL_CURL_QUICK_EXIT \
	{                       \
		CURLOPT_NOSIGNAL, 1 \
	}
#endif

#if LIBCURL_VERSION_NUM >= 0x081400
#define OPL_CURL_MULTI_QUICK_EXIT(multi) \
	curl_multi_setopt((multi), CURLMOPT_QUICK_EXIT, 1L)
#else
#define OPL_CURL_MULTI_QUICK_EXIT(multi) ((void) 0)
#endif

#endif /* LIBCURL_VERSION_NUM */

#endif
