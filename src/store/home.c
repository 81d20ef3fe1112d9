/*
 * home.c - op_control: may this copy of the ledger send?
 *
 * One row per place that ever was a home. CREATE EXTENSION writes the first, adoption
 * the others, under a lock that lets nobody else adopt; the worker reads them in each
 * turn.
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
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/timestamp.h"
#include "store/scanner.h"
#include "store/spi.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"

/* Only what is read row by row. */
#define HOME_COLUMNS(X)                          \
	X(system_identifier, INT8OID, SCANNER_FIXED) \
	X(database_oid, OIDOID, SCANNER_FIXED)       \
	X(extension_oid, OIDOID, SCANNER_FIXED)      \
	X(timeline, INT4OID, SCANNER_FIXED)          \
	X(control_inode, INT8OID, SCANNER_FIXED)     \
	X(retired, BOOLOID, SCANNER_FIXED)

enum
{
#define X(name, type, acts) Home_##name,
	HOME_COLUMNS(X)
#undef X
};

static const ScannerColumn columns[] = {HOME_COLUMNS(SCANNER_COLUMN)};
static ScannerMap          map;
static const ScannerTable  table = {
	 .name = "op_control", .ncolumns = lengthof(columns), .columns = columns, .map = &map};

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

static HomeFault
fault_among(const HomeRow *homes, int count, const HomeRow *here)
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

static HomeRow *
read_rows(const Ledger *ledger, int *count)
{
	Scanner *s = scanner_open(ledger, &table, SCANNER_READ);
	int      room = 8;
	HomeRow *rows = palloc(sizeof(HomeRow) * room);

	*count = 0;
	scanner_all(s);
	while (scanner_next(s))
	{
		HomeRow *row;
		bool     null;

		if (*count == room)
			rows = repalloc(rows, sizeof(HomeRow) * (room *= 2));
		row = &rows[(*count)++];
		row->system_identifier = (uint64) scanner_bigint(s, Home_system_identifier);
		row->database = DatumGetObjectId(scanner_datum(s, Home_database_oid, &null));
		row->extension = DatumGetObjectId(scanner_datum(s, Home_extension_oid, &null));
		row->timeline = (uint32) scanner_int(s, Home_timeline);
		row->control_inode = scanner_bigint(s, Home_control_inode);
		row->retired = scanner_bool(s, Home_retired);
	}
	scanner_close(s);
	return rows;
}

HomeFault
home_fault(const Ledger *ledger, Oid extension)
{
	int      n;
	HomeRow *rows = read_rows(ledger, &n);
	HomeRow  here = home_here(extension);

	return fault_among(rows, n, &here);
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

void
home_lock(const Ledger *ledger)
{
	static const SpiStatement lock = {
		"LOCK TABLE @.op_control IN SHARE ROW EXCLUSIVE MODE"};

	spi_run(ledger, &lock, NULL, NULL);
	spi_done();
}

void
home_settle(const Ledger *ledger, const HomeRow *here, const char *actor, TimestampTz now)
{
	static const SpiStatement retire = {
		"UPDATE @.op_control SET retired = true"
		" WHERE NOT retired"
		"   AND (system_identifier <> $1 OR database_oid <> $2 OR extension_oid <> $3)",
		3,
		{INT8OID, OIDOID, OIDOID}};
	static const SpiStatement settle = {
		"INSERT INTO @.op_control AS c (system_identifier, database_oid, extension_oid,"
		"                               timeline, control_inode, adopted_at, adopted_by)"
		" VALUES ($1, $2, $3, $4, $5, $6, $7)"
		" ON CONFLICT (system_identifier, database_oid, extension_oid) DO UPDATE"
		"   SET timeline = $4, control_inode = $5, adopted_at = $6, adopted_by = $7,"
		"       retired = false",
		7,
		{INT8OID, OIDOID, OIDOID, INT4OID, INT8OID, TIMESTAMPTZOID, TEXTOID}};
	Datum values[] = {Int64GetDatum((int64) here->system_identifier),
					  ObjectIdGetDatum(here->database),
					  ObjectIdGetDatum(here->extension),
					  Int32GetDatum((int32) here->timeline),
					  Int64GetDatum(here->control_inode),
					  TimestampTzGetDatum(now),
					  CStringGetTextDatum(actor)};

	spi_run(ledger, &retire, values, NULL);
	spi_done();
	spi_run(ledger, &settle, values, NULL);
	spi_done();
}
