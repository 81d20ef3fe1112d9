/*
 * home.c - may this copy of the ledger send?
 */
#include "postgres.h"

#include "store/home.h"

#include <sys/stat.h>

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "catalog/indexing.h"
#include "catalog/pg_control.h"
#include "catalog/pg_extension.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"

Oid
home_extension(Oid *schema)
{
	Oid         extension = InvalidOid;
	Relation    catalog = table_open(ExtensionRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple   tuple;

	ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber, F_NAMEEQ,
				CStringGetDatum("op_ledger"));
	scan = systable_beginscan(catalog, ExtensionNameIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	*schema = InvalidOid;
	if (HeapTupleIsValid(tuple))
	{
		extension = ((Form_pg_extension) GETSTRUCT(tuple))->oid;
		*schema = ((Form_pg_extension) GETSTRUCT(tuple))->extnamespace;
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return extension;
}

HomeRow
home_here(Oid extension)
{
	HomeRow     here = {.extension = extension};
	struct stat control;

	here.system_identifier = GetSystemIdentifier();
	here.database = MyDatabaseId;
	/* pg_control still names the old time line right after a promotion. */
	here.timeline = GetWALInsertionTimeLine();
	if (stat(XLOG_CONTROL_FILE, &control) != 0)
		ereport(ERROR, (errcode_for_file_access(),
						errmsg("could not stat file \"%s\": %m", XLOG_CONTROL_FILE)));
	here.control_inode = (int64) control.st_ino;
	return here;
}

/* Are these rows about the same place, whatever its time line and files? */
static bool
same_place(const HomeRow *a, const HomeRow *b)
{
	return a->system_identifier == b->system_identifier && a->database == b->database &&
		   a->extension == b->extension;
}

HomeFault
home_fault(const HomeRow *homes, int count, const HomeRow *here)
{
	const HomeRow *ours = NULL;

	for (int i = 0; i < count; i++)
	{
		if (same_place(&homes[i], here))
			ours = &homes[i];
		else if (!homes[i].retired)
			return HOME_ELSEWHERE;
	}
	if (!ours || ours->retired)
		return HOME_NONE;
	/* Only forward: a file copy of what was later promoted is a mere copy. */
	if (here->timeline > ours->timeline)
		return HOME_PROMOTED;
	if (here->timeline != ours->timeline || ours->control_inode != here->control_inode)
		return HOME_COPIED;
	return HOME_OK;
}

const char *
home_reason(HomeFault fault)
{
	static const char *const reasons[] = {
		[HOME_OK] = NULL,
		[HOME_ELSEWHERE] =
			"this ledger came from elsewhere (a restored dump, a copied database, "
			"an upgraded or replicated cluster): its original may still send",
		[HOME_NONE] = "this ledger has no home here",
		[HOME_PROMOTED] = "this server was promoted or recovered to a point in time: "
						  "the former one may have sent more than is recorded here",
		[HOME_COPIED] = "these data files are a copy: the original may still send",
	};

	return reasons[fault];
}
