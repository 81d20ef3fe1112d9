/*
 * scanner.c - single rows: found by key, locked, read and written without a statement;
 * the only file that goes to the executor's functions for them.
 *
 * State that outlives a command is in the maps alone. A map says which attribute of a
 * table is which of our columns; it is filled when the table is first opened, and
 * again after the relation cache has said that the table may have changed. An open
 * scanner keeps its own copy: while it holds the table, no column of it changes.
 */
#include "postgres.h"

#include "store/scanner.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "executor/nodeModifyTable.h"
#include "base/compat.h"
#include "base/datum.h"
#include "miscadmin.h"
#include "rewrite/rewriteHandler.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

struct Scanner
{
	const ScannerTable *table;
	Scanner            *command; /* the scanner that began this command, perhaps itself */
	MemoryContext       before;  /* of that one: the context to go back to */
	bool                wrote;   /* of that one: what the command wrote is to be seen */
	Oid                 schema;
	LOCKMODE            lockmode;
	bool                updates_key; /* an update of ours changes what is unique */
	Relation            relation;
	const char         *index_name; /* NULL: the primary key */
	Relation            index;      /* NULL until something is looked for */
	IndexScanDesc       scan;       /* by the index, or */
	TableScanDesc       walk;       /* through the table */
	int                 nkeys;
	TupleTableSlot     *found;  /* the present row */
	BlockNumber         blocks; /* of the table, when it was asked for; 0: not yet */
	CommandId           cid;

	/* of a writer; NULL for a reader */
	EState         *estate;
	ResultRelInfo  *target;
	TupleTableSlot *written;
	bool            fresh;    /* `written` was begun empty */
	uint8           acts;     /* whose columns it may update */
	Bitmapset      *others;   /* attributes whose default is asked for */
	ExprState     **defaults; /* theirs; NULL: there are none */
	EPQState        recheck;  /* asked for, never used: rows are locked before */

	AttrNumber attributes[SCANNER_COLUMNS_MAX]; /* of our columns */
};

/* --------------------------------------------------------------------- maps */

static ScannerMap *maps = NULL; /* all that were ever filled */
static uint64      changes = 0; /* that the relation cache told of */

/* Runs whenever a lock is taken, also while a map is being filled. */
static void
relation_changed(Datum arg, Oid relid)
{
	for (ScannerMap *map = maps; map; map = map->next)
	{
		if (OidIsValid(relid) && map->relid != relid)
			continue;
		map->relid = InvalidOid;
	}
	changes++;
}

static void
watch(ScannerMap *map)
{
	if (!maps)
		CacheRegisterRelcacheCallback(relation_changed, (Datum) 0);
	for (const ScannerMap *known = maps; known; known = known->next)
	{
		if (known == map)
			return;
	}
	map->next = maps;
	maps = map;
}

/* The attribute of this name and type. */
static AttrNumber
find_attribute(const ScannerTable *table, TupleDesc descriptor,
			   const ScannerColumn *column)
{
	const char *hint = "The tables of op_ledger keep its columns. Is an ALTER EXTENSION "
					   "op_ledger UPDATE due?";

	for (int i = 0; i < descriptor->natts; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(descriptor, i);

		if (attribute->attisdropped ||
			strcmp(NameStr(attribute->attname), column->name) != 0)
			continue;
		if (attribute->atttypid != column->type)
			ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
							errmsg("column \"%s\" of table \"%s\" is of type %s, not %s",
								   column->name, table->name,
								   format_type_be(attribute->atttypid),
								   format_type_be(column->type)),
							errhint("%s", hint)));
		return attribute->attnum;
	}
	ereport(ERROR, (errcode(ERRCODE_UNDEFINED_COLUMN),
					errmsg("column \"%s\" of table \"%s\" does not exist", column->name,
						   table->name),
					errhint("%s", hint)));
}

/* The attributes of columns that these acts update, as the executor counts them. */
static Bitmapset *
updated_by(const ScannerTable *table, const AttrNumber *attributes, uint8 acts)
{
	Bitmapset *updated = NULL;

	for (int i = 0; i < table->ncolumns; i++)
	{
		if (table->columns[i].acts & acts & ~SCANNER_DEFAULT)
			updated = bms_add_member(updated,
									 attributes[i] - FirstLowInvalidHeapAttributeNumber);
	}
	return updated;
}

/* Has somebody made a column unique that we update? Then an UPDATE needs a lock that
 * those who refer to the row do not share. */
static bool
updates_key(const ScannerTable *table, Relation relation, const AttrNumber *attributes)
{
	Bitmapset *key = RelationGetIndexAttrBitmap(relation, INDEX_ATTR_BITMAP_KEY);
	Bitmapset *updated = updated_by(table, attributes, PG_UINT8_MAX);
	bool       overlap = bms_overlap(key, updated);

	bms_free(key);
	bms_free(updated);
	return overlap;
}

/* Attributes that get what an INSERT would give them: those that are not ours, and
 * those that we leave to their default. */
static Bitmapset *
others_than(const ScannerTable *table, TupleDesc descriptor, const AttrNumber *attributes)
{
	Bitmapset    *others = NULL;
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

	for (int i = 0; i < descriptor->natts; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(descriptor, i);

		if (!attribute->attisdropped && !attribute->attgenerated)
			others = bms_add_member(others, attribute->attnum);
	}
	for (int i = 0; i < table->ncolumns; i++)
	{
		if (table->columns[i].acts != SCANNER_DEFAULT)
			others = bms_del_member(others, attributes[i]);
	}
	MemoryContextSwitchTo(old);
	return others;
}

static void
fill_map(const ScannerTable *table, Relation relation)
{
	ScannerMap *map = table->map;
	TupleDesc   descriptor = RelationGetDescr(relation);
	uint64      before = changes;

	Assert(table->ncolumns <= SCANNER_COLUMNS_MAX);
	watch(map);
	map->relid = InvalidOid;
	for (int i = 0; i < table->ncolumns; i++)
		map->attributes[i] = find_attribute(table, descriptor, &table->columns[i]);
	map->updates_key = updates_key(table, relation, map->attributes);
	bms_free(map->others);
	map->others = NULL;
	map->others = others_than(table, descriptor, map->attributes);
	if (changes == before)
		map->relid = RelationGetRelid(relation);
}

static const ScannerMap *
map_of(const ScannerTable *table, Relation relation)
{
	if (table->map->relid != RelationGetRelid(relation))
		fill_map(table, relation);
	return table->map;
}

AttrNumber
scanner_attribute(const ScannerTable *table, Relation relation, int column)
{
	return map_of(table, relation)->attributes[column];
}

/* ----------------------------------------------------------- open and close */

/* What is switched off, or has been asked already, need not be asked for each row: to
 * ask, the executor locks the row once more. The description is our own copy. */
static void
leave_out_triggers(ResultRelInfo *target, const char *guard)
{
	TriggerDesc *triggers = target->ri_TrigDesc;
	char         off = SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA
						   ? TRIGGER_FIRES_ON_ORIGIN
						   : TRIGGER_FIRES_ON_REPLICA;

	for (int i = 0; triggers && i < triggers->numtriggers; i++)
	{
		const Trigger *trigger = &triggers->triggers[i];

		if (trigger->tgenabled != TRIGGER_DISABLED && trigger->tgenabled != off &&
			TRIGGER_FOR_ROW(trigger->tgtype) &&
			!(guard && strcmp(trigger->tgname, guard) == 0))
			return;
	}
	target->ri_TrigDesc = NULL;
}

static void
prepare_defaults(Scanner *s)
{
	if (!s->others)
		return;
	s->defaults = palloc0(sizeof(ExprState *) * RelationGetDescr(s->relation)->natts);
	for (int attribute = -1; (attribute = bms_next_member(s->others, attribute)) >= 0;)
	{
		Node *value = build_column_default(s->relation, attribute);

		if (value)
			s->defaults[attribute - 1] = ExecPrepareExpr((Expr *) value, s->estate);
	}
}

/* What the executor needs to write one table. */
static void
begin_writing(Scanner *s, bool first)
{
	MemoryContext old;

	s->estate = CreateExecutorState();
	old = MemoryContextSwitchTo(s->estate->es_query_cxt);
	s->written =
		MakeSingleTupleTableSlot(RelationGetDescr(s->relation), &TTSOpsHeapTuple);
	s->target = makeNode(ResultRelInfo);
	opl_init_range_table(s->estate, s->relation,
						 updated_by(s->table, s->attributes, s->acts));
	InitResultRelInfo(s->target, s->relation, 1, NULL, 0);
	leave_out_triggers(s->target, s->table->guard);
	s->estate->es_opened_result_relations =
		lappend(s->estate->es_opened_result_relations, s->target);
	s->estate->es_snapshot = GetActiveSnapshot();
	s->estate->es_output_cid = s->cid;
	ExecOpenIndices(s->target, first);
	prepare_defaults(s);
	opl_recheck_init(&s->recheck, s->estate);
	AfterTriggerBeginQuery();
	MemoryContextSwitchTo(old);
}

static void
begin_command(Scanner *s, const Ledger *ledger)
{
	s->command = s;
	if (ledger->snapshot_of_caller)
		PushActiveSnapshot(GetActiveSnapshot());
	else
	{
		CommandCounterIncrement();
		PushActiveSnapshot(GetTransactionSnapshot());
	}
}

static void
open_table(Scanner *s, const ScannerTable *table, ScannerMode mode, uint8 acts)
{
	static const struct
	{
		LOCKMODE    lock;
		const char *refused_as; /* where a statement would be, such as on a standby */
	} modes[] = {
		[SCANNER_READ] = {AccessShareLock, NULL},
		[SCANNER_LOCK] = {RowShareLock, "SELECT FOR UPDATE"},
		[SCANNER_INSERT] = {RowExclusiveLock, "UPDATE"},
		[SCANNER_INSERT_FIRST] = {RowExclusiveLock, "INSERT"},
	};
	const ScannerMap *map;

	if (modes[mode].refused_as)
	{
		PreventCommandIfReadOnly(modes[mode].refused_as);
		PreventCommandIfParallelMode(modes[mode].refused_as);
	}
	s->table = table;
	s->acts = acts;
	s->lockmode = modes[mode].lock;
	s->relation = table_open(get_relname_relid(table->name, s->schema), s->lockmode);
	map = map_of(table, s->relation);
	memcpy(s->attributes, map->attributes, sizeof(AttrNumber) * table->ncolumns);
	s->updates_key = map->updates_key;
	if (map->others && mode >= SCANNER_INSERT)
		s->others = bms_copy(map->others);
	s->found = table_slot_create(s->relation, NULL);
	if (mode != SCANNER_READ)
		s->cid = GetCurrentCommandId(true);
	if (mode == SCANNER_INSERT)
		begin_writing(s, false);
}

static Scanner *
open_command(const Ledger *ledger, const ScannerTable *table, ScannerMode mode,
			 uint8 acts)
{
	MemoryContext before = MemoryContextSwitchTo(ledger->memory);
	Scanner      *s = palloc0(sizeof(Scanner));

	Assert(OidIsValid(ledger->schema));
	Assert(mode == SCANNER_READ || !ledger->snapshot_of_caller);
	s->before = before;
	s->schema = ledger->schema;
	begin_command(s, ledger);
	open_table(s, table, mode, acts);
	return s;
}

Scanner *
scanner_open(const Ledger *ledger, const ScannerTable *table, ScannerMode mode)
{
	return open_command(ledger, table, mode, SCANNER_FIXED);
}

Scanner *
scanner_open_update(const Ledger *ledger, const ScannerTable *table, uint8 acts)
{
	return open_command(ledger, table, SCANNER_INSERT, acts);
}

Scanner *
scanner_open_beside(Scanner *command, const ScannerTable *table, ScannerMode mode)
{
	Scanner *s = palloc0(sizeof(Scanner));

	Assert(command->command == command);
	s->command = command;
	s->schema = command->schema;
	open_table(s, table, mode, SCANNER_FIXED);
	return s;
}

static void
end_scan(Scanner *s)
{
	if (s->scan)
		index_endscan(s->scan);
	if (s->walk)
		table_endscan(s->walk);
	s->scan = NULL;
	s->walk = NULL;
}

static void
end_writing(Scanner *s)
{
	AfterTriggerEndQuery(s->estate);
	EvalPlanQualEnd(&s->recheck);
	ExecDropSingleTupleTableSlot(s->written);
	ExecResetTupleTable(s->estate->es_tupleTable, false);
	ExecCloseResultRelations(s->estate);
	FreeExecutorState(s->estate);
}

/* Locks on tables stay until the transaction ends. Triggers that were put off until
 * after the rows fire in end_writing(), and may call us. */
void
scanner_close(Scanner *s)
{
	MemoryContext before = s->before;

	end_scan(s);
	ExecDropSingleTupleTableSlot(s->found);
	if (s->estate)
		end_writing(s);
	if (s->index)
		index_close(s->index, NoLock);
	table_close(s->relation, NoLock);
	if (s->command == s)
	{
		PopActiveSnapshot();
		if (s->wrote)
			CommandCounterIncrement();
		MemoryContextSwitchTo(before);
	}
	pfree(s);
}

/* --------------------------------------------------------------------- find */

void
scanner_use_index(Scanner *s, const char *index)
{
	Assert(!s->index);
	s->index_name = index;
}

static void
open_index(Scanner *s)
{
	if (s->index)
		return;
	s->index = index_open(s->index_name ? get_relname_relid(s->index_name, s->schema)
										: opl_primary_key(s->relation),
						  s->lockmode);
}

/* Which column of the index is ours? The next one, or the same again: an index that
 * somebody made anew over other columns would find other rows. */
static int
index_column(Scanner *s, int column, int last)
{
	const int2vector *columns = &s->index->rd_index->indkey;
	AttrNumber        attribute = s->attributes[column];

	if (last > 0 && columns->values[last - 1] == attribute)
		return last;
	if (last < s->index->rd_index->indnkeyatts && columns->values[last] == attribute)
		return last + 1;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("column %d of index \"%s\" is not \"%s\"", last + 1,
					RelationGetRelationName(s->index), s->table->columns[column].name),
			 errhint("op_ledger finds rows of table \"%s\" by it: make it anew as "
					 "the extension does.",
					 s->table->name)));
}

static void
init_key(Scanner *s, ScanKey scan_key, int number, const ScannerKey *key)
{
	static const struct
	{
		StrategyNumber strategy;
		Oid            type;
		RegProcedure   function;
	} how[] = {
		[SCANNER_TEXT] = {BTEqualStrategyNumber, TEXTOID, F_TEXTEQ},
		[SCANNER_INT] = {BTEqualStrategyNumber, INT4OID, F_INT4EQ},
		[SCANNER_FROM] = {BTGreaterEqualStrategyNumber, TIMESTAMPTZOID, F_TIMESTAMPTZ_GE},
		[SCANNER_UNTIL] = {BTLessEqualStrategyNumber, TIMESTAMPTZOID, F_TIMESTAMPTZ_LE},
		[SCANNER_LATER_THAN] = {BTGreaterStrategyNumber, TIMESTAMPTZOID,
								F_TIMESTAMPTZ_GT},
	};

	Assert(s->table->columns[key->column].type == how[key->is].type);
	ScanKeyEntryInitialize(scan_key, 0, number, how[key->is].strategy, how[key->is].type,
						   s->index->rd_indcollation[number - 1], how[key->is].function,
						   key->value);
}

void
scanner_find(Scanner *s, const ScannerKey *keys, int nkeys)
{
	ScanKeyData scan_keys[SCANNER_KEYS];
	int         number = 0;

	Assert(nkeys > 0 && nkeys <= SCANNER_KEYS);
	open_index(s);
	if (!s->scan || s->nkeys != nkeys)
	{
		end_scan(s);
		s->scan = opl_index_beginscan(s->relation, s->index, GetActiveSnapshot(), nkeys);
		s->nkeys = nkeys;
	}
	for (int i = 0; i < nkeys; i++)
	{
		number = index_column(s, keys[i].column, number);
		init_key(s, &scan_keys[i], number, &keys[i]);
	}
	index_rescan(s->scan, scan_keys, nkeys, NULL, 0);
}

void
scanner_all(Scanner *s)
{
	end_scan(s);
	s->walk = table_beginscan(s->relation, GetActiveSnapshot(), 0, NULL);
}

bool
scanner_next(Scanner *s)
{
	if (s->walk)
		return table_scan_getnextslot(s->walk, ForwardScanDirection, s->found);
	return index_getnext_slot(s->scan, ForwardScanDirection, s->found);
}

bool
scanner_find_text(Scanner *s, const char *key)
{
	ScannerKey is = {0, SCANNER_TEXT, CStringGetTextDatum(key)};

	scanner_find(s, &is, 1);
	return scanner_next(s);
}

/* As an index scan does when it comes to a page: old versions make room for what
 * will be written. */
static void
tidy(Relation relation, BlockNumber block)
{
	Buffer buffer;

	if (relation->rd_tableam != GetHeapamTableAmRoutine())
		return;
	buffer = ReadBuffer(relation, block);
	heap_page_prune_opt(relation, buffer);
	ReleaseBuffer(buffer);
}

/* Is a row of this command's snapshot there by now? It becomes the present one. We
 * hold a lock that keeps the table from getting shorter. */
static bool
visit(Scanner *s, const ItemPointerData *row)
{
	ItemPointerData copy = *row;

	if (!ItemPointerIsValid(row))
		return false;
	if (s->blocks == 0)
		s->blocks = RelationGetNumberOfBlocks(s->relation);
	if (ItemPointerGetBlockNumber(row) >= s->blocks)
		return false;
	ExecClearTuple(s->found); /* pruning moves what is on the page */
	tidy(s->relation, ItemPointerGetBlockNumber(row));
	return table_tuple_fetch_row_version(s->relation, &copy, GetActiveSnapshot(),
										 s->found);
}

/* It may be another row's place by now, and then the index knows more. */
bool
scanner_find_from(Scanner *s, const ItemPointerData *was_at, const char *key)
{
	return (was_at && visit(s, was_at) && scanner_is(s, 0, key)) ||
		   scanner_find_text(s, key);
}

/* A session in REPEATABLE READ or SERIALIZABLE may not go on with what it cannot see. */
static void
refuse_newer(void)
{
	if (IsolationUsesXactSnapshot())
		ereport(ERROR, (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
						errmsg("could not serialize access due to concurrent update")));
}

bool
scanner_lock(Scanner *s, ScannerLock how, LockWaitPolicy wait)
{
	LockTupleMode mode = how == SCANNER_KEEP_KEY && !s->updates_key
							 ? LockTupleNoKeyExclusive
							 : LockTupleExclusive;
	uint8 flags = IsolationUsesXactSnapshot() ? 0 : TUPLE_LOCK_FLAG_FIND_LAST_VERSION;
	ItemPointerData row = s->found->tts_tid;
	TM_FailureData  failure;

	switch (table_tuple_lock(s->relation, &row, GetActiveSnapshot(), s->found, s->cid,
							 mode, wait, flags, &failure))
	{
		case TM_Ok:
			return true;
		case TM_Updated:
		case TM_Deleted:
			refuse_newer();
			return false;
		case TM_WouldBlock:
		case TM_SelfModified: /* a trigger of this command was faster */
			return false;
		default:
			elog(ERROR, "a row of \"%s\" cannot be locked",
				 RelationGetRelationName(s->relation));
	}
}

void
scanner_go(Scanner *s, const ItemPointerData *row)
{
	ItemPointerData copy = *row;

	if (!table_tuple_fetch_row_version(s->relation, &copy, SnapshotAny, s->found))
		elog(ERROR, "a row of \"%s\" is gone though it was locked",
			 RelationGetRelationName(s->relation));
}

/* ------------------------------------------------------------------- fields */

Datum
scanner_datum(Scanner *s, int column, bool *null)
{
	return slot_getattr(s->found, s->attributes[column], null);
}

char *
scanner_text(Scanner *s, int column)
{
	bool  null;
	Datum value = scanner_datum(s, column, &null);

	return null ? NULL : TextDatumGetCString(value);
}

void
scanner_name(Scanner *s, int column, char *buffer, size_t size)
{
	bool  null;
	Datum value = scanner_datum(s, column, &null);

	buffer[0] = '\0';
	if (!null)
		text_to_cstring_buffer(DatumGetTextPP(value), buffer, size);
}

int
scanner_int(Scanner *s, int column)
{
	bool  null;
	Datum value = scanner_datum(s, column, &null);

	return null ? 0 : DatumGetInt32(value);
}

int64
scanner_bigint(Scanner *s, int column)
{
	bool  null;
	Datum value = scanner_datum(s, column, &null);

	return null ? 0 : DatumGetInt64(value);
}

bool
scanner_bool(Scanner *s, int column)
{
	bool  null;
	Datum value = scanner_datum(s, column, &null);

	return !null && DatumGetBool(value);
}

TimestampTz
scanner_time(Scanner *s, int column)
{
	bool  null;
	Datum value = scanner_datum(s, column, &null);

	return null ? DT_NOBEGIN : DatumGetTimestampTz(value);
}

void *
scanner_varlena(Scanner *s, int column)
{
	bool  null;
	Datum value = scanner_datum(s, column, &null);

	return null ? NULL : PG_DETOAST_DATUM_COPY(value);
}

char **
scanner_texts(Scanner *s, int column, int *count)
{
	bool  null;
	Datum value = scanner_datum(s, column, &null);

	*count = 0;
	return null ? NULL : datum_read_texts(value, count);
}

static bool
is_text(TupleTableSlot *slot, AttrNumber attribute, const char *expected)
{
	bool  null;
	Datum value = slot_getattr(slot, attribute, &null);
	text *packed = null ? NULL : DatumGetTextPP(value);

	return packed && VARSIZE_ANY_EXHDR(packed) == strlen(expected) &&
		   memcmp(VARDATA_ANY(packed), expected, VARSIZE_ANY_EXHDR(packed)) == 0;
}

bool
scanner_is(Scanner *s, int column, const char *expected)
{
	return is_text(s->found, s->attributes[column], expected);
}

bool
scanner_wrote(Scanner *s, int column, const char *expected)
{
	return is_text(s->written, s->attributes[column], expected);
}

ItemPointerData
scanner_row(Scanner *s)
{
	return s->found->tts_tid;
}

TransactionId
scanner_xmin(Scanner *s)
{
	bool null;

	return DatumGetTransactionId(
		slot_getsysattr(s->found, MinTransactionIdAttributeNumber, &null));
}

/* ------------------------------------------------------------------ writing */

void
scanner_new(Scanner *s)
{
	int natts = RelationGetDescr(s->relation)->natts;

	if (!s->estate)
		begin_writing(s, true);
	ExecClearTuple(s->written);
	memset(s->written->tts_isnull, true, natts);
	s->fresh = true;
	for (int i = 0; s->defaults && i < natts; i++)
	{
		if (s->defaults[i])
			s->written->tts_values[i] =
				ExecEvalExpr(s->defaults[i], GetPerTupleExprContext(s->estate),
							 &s->written->tts_isnull[i]);
	}
}

/* By reference: the present row stays where it is until it is written. */
void
scanner_copy(Scanner *s)
{
	int natts = s->written->tts_tupleDescriptor->natts;

	s->fresh = false;
	ExecClearTuple(s->written);
	slot_getallattrs(s->found);
	memcpy(s->written->tts_values, s->found->tts_values, natts * sizeof(Datum));
	memcpy(s->written->tts_isnull, s->found->tts_isnull, natts * sizeof(bool));
}

void
scanner_set(Scanner *s, int column, Datum value, bool null)
{
	int i = s->attributes[column] - 1;

	Assert(s->fresh ? s->table->columns[column].acts != SCANNER_DEFAULT
					: (s->table->columns[column].acts & s->acts) != 0);
	s->written->tts_values[i] = value;
	s->written->tts_isnull[i] = null;
}

void
scanner_set_text(Scanner *s, int column, const char *text)
{
	scanner_set(s, column, text ? CStringGetTextDatum(text) : (Datum) 0, text == NULL);
}

void
scanner_set_int(Scanner *s, int column, int value)
{
	scanner_set(s, column, Int32GetDatum(value), false);
}

void
scanner_set_bool(Scanner *s, int column, bool value)
{
	scanner_set(s, column, BoolGetDatum(value), false);
}

void
scanner_set_time(Scanner *s, int column, TimestampTz at)
{
	scanner_set(s, column, TimestampTzGetDatum(at), at == DT_NOBEGIN);
}

/* The slot holds the new row; what was palloc()ed on the way is short-lived. */
static void
store(Scanner *s)
{
	s->command->wrote = true;
	ResetPerTupleExprContext(s->estate);
	ExecStoreVirtualTuple(s->written);
}

/* What goes on relies on it: an operation that is not marked must not be sent. */
static _Noreturn void
refused(Scanner *s)
{
	ereport(
		ERROR,
		(errcode(ERRCODE_TRIGGERED_ACTION_EXCEPTION),
		 errmsg("a trigger on table \"%s\" refused a row",
				RelationGetRelationName(s->relation)),
		 errhint("\\d %s lists its triggers. Those of op_ledger refuse no rows, unless "
				 "session_replication_role is replica.",
				 RelationGetRelationName(s->relation))));
}

void
scanner_insert(Scanner *s)
{
	store(s);
	ExecSimpleRelationInsert(s->target, s->estate, s->written);
	if (!ItemPointerIsValid(&s->written->tts_tid))
		refused(s);
}

/* What the executor does for ON CONFLICT DO NOTHING. */
static bool
insert_speculatively(Scanner *s, List **recheck)
{
	TransactionId xid = GetCurrentTransactionId();
	uint32        token = SpeculativeInsertionLockAcquire(xid);
	bool          conflict = false;

	table_tuple_insert_speculative(s->relation, s->written, s->cid, 0, NULL, token);
	*recheck = opl_insert_index_tuples(s->target, s->written, s->estate, &conflict);
	table_tuple_complete_speculative(s->relation, s->written, token, !conflict);
	SpeculativeInsertionLockRelease(xid);
	return !conflict;
}

bool
scanner_insert_first(Scanner *s)
{
	const TriggerDesc *triggers = s->target->ri_TrigDesc;
	ItemPointerData    row;
	List              *recheck;

	store(s);
	if (triggers && triggers->trig_insert_before_row &&
		!ExecBRInsertTriggers(s->estate, s->target, s->written))
		return false;
	s->written->tts_tableOid = RelationGetRelid(s->relation);
	if (RelationGetDescr(s->relation)->constr &&
		RelationGetDescr(s->relation)->constr->has_generated_stored)
		ExecComputeStoredGenerated(s->target, s->estate, s->written, CMD_INSERT);
	ExecConstraints(s->target, s->written, s->estate);
	while (!insert_speculatively(s, &recheck))
	{
		CHECK_FOR_INTERRUPTS();
		if (!opl_check_index_constraints(s->target, s->written, s->estate, &row))
			return false;
	}
	ExecARInsertTriggers(s->estate, s->target, s->written, recheck, NULL);
	return true;
}

ItemPointerData
scanner_update(Scanner *s)
{
	store(s);
	ExecSimpleRelationUpdate(s->target, s->estate, &s->recheck, s->found, s->written);
	if (!ItemPointerIsValid(&s->written->tts_tid) ||
		ItemPointerEquals(&s->written->tts_tid, &s->found->tts_tid))
		refused(s);
	return s->written->tts_tid;
}

static bool
is_there(Scanner *s)
{
	TupleTableSlot *slot = table_slot_create(s->relation, NULL);
	bool            there = table_tuple_fetch_row_version(s->relation, &s->found->tts_tid,
														  SnapshotSelf, slot);

	ExecDropSingleTupleTableSlot(slot);
	return there;
}

void
scanner_delete(Scanner *s)
{
	s->command->wrote = true;
	ResetPerTupleExprContext(s->estate);
	ExecSimpleRelationDelete(s->target, s->estate, &s->recheck, s->found);
	if (s->target->ri_TrigDesc && s->target->ri_TrigDesc->trig_delete_before_row &&
		is_there(s))
		refused(s);
}
