/*
 * probe.c - a row by its key, without a statement.
 *
 * op_submit() asks for three rows of configuration each time, and whether the id
 * is known. To set up a join of three tables took longer than to look into them.
 * What is seen is what a statement sees that begins now.
 */
#include "postgres.h"

#include "probe.h"

#include "compat.h"
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

void
probe_begin(void)
{
	CommandCounterIncrement();
	PushActiveSnapshot(GetTransactionSnapshot());
}

void
probe_end(void)
{
	PopActiveSnapshot();
}

static Datum
copy_of(Datum value, Form_pg_attribute attribute)
{
	if (attribute->attlen == -1)
		return PointerGetDatum(PG_DETOAST_DATUM_COPY(value));
	return datumCopy(value, attribute->attbyval, attribute->attlen);
}

static void
fill_column(ProbeColumn *column, TupleDesc descriptor, HeapTuple row)
{
	for (int i = 0; i < descriptor->natts; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(descriptor, i);

		if (strcmp(NameStr(attribute->attname), column->name) != 0)
			continue;
		column->value = heap_getattr(row, i + 1, descriptor, &column->null);
		if (!column->null)
			column->value = copy_of(column->value, attribute);
		return;
	}
	elog(ERROR, "there is no column \"%s\"", column->name);
}

static void
init_key(ScanKey scan_key, Relation index, const char *key)
{
	ScanKeyEntryInitialize(scan_key, 0, index->rd_index->indkey.values[0],
						   BTEqualStrategyNumber, TEXTOID, index->rd_indcollation[0],
						   F_TEXTEQ, CStringGetTextDatum(key));
}

bool
probe_row(Oid schema, const char *table, const char *key, ProbeColumn *columns,
		  int ncolumns)
{
	Relation    relation = table_open(get_relname_relid(table, schema), AccessShareLock);
	Relation    index = index_open(opl_primary_key(relation), AccessShareLock);
	ScanKeyData scan_key;
	SysScanDesc scan;
	HeapTuple   row;

	init_key(&scan_key, index, key);
	scan = systable_beginscan_ordered(relation, index, GetActiveSnapshot(), 1, &scan_key);
	row = systable_getnext_ordered(scan, ForwardScanDirection);
	for (int i = 0; row && i < ncolumns; i++)
		fill_column(&columns[i], RelationGetDescr(relation), row);
	systable_endscan_ordered(scan);
	index_close(index, AccessShareLock);
	table_close(relation, AccessShareLock);
	return row != NULL;
}
