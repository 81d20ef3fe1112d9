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
#include "utils/wait_event.h" /* PG_WAIT_EXTENSION */

/* The library hides its symbols (-fvisibility=hidden). PostgreSQL 16 exports by
 * itself what must be found by name: _PG_init(), the magic block, the entry points of
 * background workers, and each SQL function with its pg_finfo_. Here 15 does the same.
 * A file that has SQL functions and does not include this one is found out by
 * CREATE EXTENSION: "could not find function". */
#include "fmgr.h"
#if PG_VERSION_NUM < 160000
#undef PGDLLEXPORT
#define PGDLLEXPORT __attribute__((visibility("default")))
#undef PG_FUNCTION_INFO_V1
#define PG_FUNCTION_INFO_V1(funcname)                                     \
	extern PGDLLEXPORT Datum                  funcname(PG_FUNCTION_ARGS); \
	extern PGDLLEXPORT const Pg_finfo_record *pg_finfo_##funcname(void);  \
	const Pg_finfo_record                    *pg_finfo_##funcname(void)   \
	{                                                                     \
		static const Pg_finfo_record my_finfo = {1};                      \
		return &my_finfo;                                                 \
	}                                                                     \
	extern int no_such_variable
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

/* PostgreSQL 18 counts an index scan's descents. The user includes access/genam.h. */
#if PG_VERSION_NUM >= 180000
#define opl_index_beginscan(relation, index, snapshot, nkeys) \
	index_beginscan((relation), (index), (snapshot), NULL, (nkeys), 0)
#else
#define opl_index_beginscan(relation, index, snapshot, nkeys) \
	index_beginscan((relation), (index), (snapshot), (nkeys), 0)
#endif

/* For those who include executor/executor.h before. */
#ifdef EXECUTOR_H
#include "catalog/pg_class.h"
#include "parser/parse_relation.h"
#include "utils/rel.h"

/* An estate for one table, of which these columns are updated. PostgreSQL 16 took
 * the columns out of the range table; 18 asks which relations were not pruned. */
static inline void
opl_init_range_table(EState *estate, Relation relation, Bitmapset *updated)
{
	RangeTblEntry *rte = makeNode(RangeTblEntry);

	rte->rtekind = RTE_RELATION;
	rte->relid = RelationGetRelid(relation);
	rte->relkind = relation->rd_rel->relkind;
	rte->rellockmode = RowExclusiveLock;
#if PG_VERSION_NUM >= 160000
	{
		List *permissions = NIL;

		addRTEPermissionInfo(&permissions, rte)->updatedCols = updated;
#if PG_VERSION_NUM >= 180000
		ExecInitRangeTable(estate, list_make1(rte), permissions, bms_make_singleton(1));
#else
		ExecInitRangeTable(estate, list_make1(rte), permissions);
#endif
	}
#else
	rte->updatedCols = updated;
	ExecInitRangeTable(estate, list_make1(rte));
#endif
}

/* PostgreSQL 16 asks which relations are written. */
#if PG_VERSION_NUM >= 160000
#define opl_recheck_init(recheck, estate) \
	EvalPlanQualInit((recheck), (estate), NULL, NIL, -1, NIL)
#else
#define opl_recheck_init(recheck, estate) \
	EvalPlanQualInit((recheck), (estate), NULL, NIL, -1)
#endif

/* Into all indexes; a duplicate key is no error, but a conflict. */
#if PG_VERSION_NUM >= 160000
#define opl_insert_index_tuples(target, slot, estate, conflict) \
	ExecInsertIndexTuples((target), (slot), (estate), false, true, (conflict), NIL, false)
#else
#define opl_insert_index_tuples(target, slot, estate, conflict) \
	ExecInsertIndexTuples((target), (slot), (estate), false, true, (conflict), NIL)
#endif

#if PG_VERSION_NUM >= 180000
#define opl_check_index_constraints(target, slot, estate, row) \
	ExecCheckIndexConstraints((target), (slot), (estate), (row), NULL, NIL)
#else
#define opl_check_index_constraints(target, slot, estate, row) \
	ExecCheckIndexConstraints((target), (slot), (estate), (row), NIL)
#endif
#endif /* EXECUTOR_H */

/* PostgreSQL 17 ties wait event sets to resource owners; NULL: to none. */
#if PG_VERSION_NUM >= 170000
#define opl_create_wait_event_set(n) CreateWaitEventSet(NULL, (n))
#else
#include "utils/memutils.h"
#define opl_create_wait_event_set(n) CreateWaitEventSet(TopMemoryContext, (n))
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
