/*
 * op_ledger.c - what happens when the library is loaded.
 */
#include "postgres.h"

#include "base/compat.h"
#include "base/clock.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_database.h"
#include "fmgr.h"
#include "base/guc.h"
#include "worker/launcher.h"
#include "miscadmin.h"
#include "base/wake.h"

OPL_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

static object_access_hook_type prev_object_access = NULL;

/* DROP DATABASE waits for our worker to leave: tell it at once. And a database that
 * came or changed may want one, or no more. */
static void
on_object_access(ObjectAccessType access, Oid classId, Oid objectId, int subId, void *arg)
{
	if (prev_object_access)
		prev_object_access(access, classId, objectId, subId, arg);
	if (classId != DatabaseRelationId)
		return;
	if (access == OAT_DROP)
		wake_yield(objectId);
	else if (access == OAT_POST_CREATE || access == OAT_POST_ALTER)
		wake_databases_at_commit();
}

/* Loaded later than at the server's start, settings and shared memory are not to
 * be had: op_submit() then records, and says that nobody sends. */
void
_PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	guc_define();
	clock_init();
	wake_init();
	launcher_register();
	prev_object_access = object_access_hook;
	object_access_hook = on_object_access;
}
