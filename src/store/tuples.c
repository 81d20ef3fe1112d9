/*
 * tuples.c - rows by key, read, locked and written without a statement.
 */
#include "postgres.h"

#include "store/tuples.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "store/columns.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "executor/nodeModifyTable.h"
#include "base/compat.h"
#include "miscadmin.h"
#include "rewrite/rewriteHandler.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

struct Tuples
{
	const Shape    *shape;
	Oid             schema;
	LOCKMODE        lockmode;
	bool            takes_key; /* an update of ours changes what is unique */
	Relation        relation;
	Relation        index; /* NULL until something is looked for */
	IndexScanDesc   scan;  /* by the index, or */
	TableScanDesc   walk;  /* through the table */
	int             nkeys;
	TupleTableSlot *found;  /* the present row */
	BlockNumber     blocks; /* of the table, when it was asked for; 0: not yet */
	CommandId       command;

	/* of a writer; NULL for a reader */
	EState         *estate;
	ResultRelInfo  *target;
	TupleTableSlot *written;
	ExprState     **defaults; /* of columns that the shape does not know; NULL: none */
	EPQState        recheck;  /* asked for, never used: rows are locked before */
};

static bool wrote = false; /* since the last command ended */

/* ----------------------------------------------------------------- commands */

void
tuples_begin(bool snapshot_of_caller)
{
	if (!snapshot_of_caller)
	{
		CommandCounterIncrement();
		PushActiveSnapshot(GetTransactionSnapshot());
	}
	else
		PushActiveSnapshot(GetActiveSnapshot());
}

/* What was written can be seen from now on. */
void
tuples_end(void)
{
	PopActiveSnapshot();
	if (wrote)
		CommandCounterIncrement();
	wrote = false;
}

/* ------------------------------------------------------------------- tables */

static void
check_shape(Relation relation, const Shape *shape)
{
	TupleDesc descriptor = RelationGetDescr(relation);

	for (int i = 0; i < shape->ncolumns; i++)
	{
		const ShapeColumn *column = &shape->columns[i];

		if (i >= descriptor->natts ||
			strcmp(NameStr(TupleDescAttr(descriptor, i)->attname), column->name) != 0 ||
			TupleDescAttr(descriptor, i)->atttypid != column->type)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_COLUMN),
					 errmsg("column %d of table \"%s\" is not \"%s\" of type %s", i + 1,
							shape->table, column->name, format_type_be(column->type)),
					 errhint("Columns of its tables are where op_ledger put them. "
							 "Is an ALTER EXTENSION op_ledger UPDATE due?")));
	}
}

static Bitmapset *
columns_of(uint64 mask)
{
	Bitmapset *columns = NULL;

	for (int i = 1; mask >> i != 0; i++)
	{
		if (mask & (UINT64CONST(1) << i))
			columns = bms_add_member(columns, i - FirstLowInvalidHeapAttributeNumber);
	}
	return columns;
}

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

/* Columns that somebody added get what an INSERT would give them. */
static void
prepare_defaults(Tuples *t)
{
	TupleDesc descriptor = RelationGetDescr(t->relation);

	if (descriptor->natts == t->shape->ncolumns)
		return;
	t->defaults = palloc0(sizeof(ExprState *) * descriptor->natts);
	for (int i = t->shape->ncolumns; i < descriptor->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(descriptor, i);
		Node             *value = NULL;

		if (!column->attisdropped && !column->attgenerated)
			value = build_column_default(t->relation, i + 1);
		if (value)
			t->defaults[i] = ExecPrepareExpr((Expr *) value, t->estate);
	}
}

/* What the executor needs to write one table. */
static void
begin_writing(Tuples *t, bool first)
{
	MemoryContext old;

	t->estate = CreateExecutorState();
	old = MemoryContextSwitchTo(t->estate->es_query_cxt);
	t->written =
		MakeSingleTupleTableSlot(RelationGetDescr(t->relation), &TTSOpsHeapTuple);
	t->target = makeNode(ResultRelInfo);
	opl_init_range_table(t->estate, t->relation, columns_of(t->shape->updated));
	InitResultRelInfo(t->target, t->relation, 1, NULL, 0);
	leave_out_triggers(t->target, t->shape->guard);
	t->estate->es_opened_result_relations =
		lappend(t->estate->es_opened_result_relations, t->target);
	t->estate->es_snapshot = GetActiveSnapshot();
	t->estate->es_output_cid = t->command;
	ExecOpenIndices(t->target, first);
	prepare_defaults(t);
	opl_recheck_init(&t->recheck, t->estate);
	AfterTriggerBeginQuery();
	MemoryContextSwitchTo(old);
}

/* What a statement would be refused. */
static void
check_may_write(TuplesTo to)
{
	static const char *const commands[] = {
		[TUPLES_TO_LOCK] = "SELECT FOR UPDATE",
		[TUPLES_TO_WRITE] = "UPDATE",
		[TUPLES_TO_INSERT_FIRST] = "INSERT",
	};

	if (to == TUPLES_TO_READ)
		return;
	PreventCommandIfReadOnly(commands[to]);
	PreventCommandIfParallelMode(commands[to]);
}

/* Somebody made a column unique that we write: then an UPDATE needs a lock that those
 * who refer to the row do not share. */
static bool
takes_key(Relation relation, const Shape *shape)
{
	Bitmapset *key = RelationGetIndexAttrBitmap(relation, INDEX_ATTR_BITMAP_KEY);
	Bitmapset *updated = columns_of(shape->updated);
	bool       overlap = bms_overlap(key, updated);

	bms_free(key);
	bms_free(updated);
	return overlap;
}

Tuples *
tuples_open(Oid schema, const Shape *shape, TuplesTo to)
{
	static const LOCKMODE lockmodes[] = {
		[TUPLES_TO_READ] = AccessShareLock,
		[TUPLES_TO_LOCK] = RowShareLock,
		[TUPLES_TO_WRITE] = RowExclusiveLock,
		[TUPLES_TO_INSERT_FIRST] = RowExclusiveLock,
	};
	Tuples *t = palloc0(sizeof(Tuples));

	check_may_write(to);
	t->shape = shape;
	t->schema = schema;
	t->lockmode = lockmodes[to];
	t->relation = table_open(get_relname_relid(shape->table, schema), t->lockmode);
	check_shape(t->relation, shape);
	t->found = table_slot_create(t->relation, NULL);
	if (to == TUPLES_TO_LOCK)
		t->takes_key = takes_key(t->relation, shape);
	if (to != TUPLES_TO_READ)
		t->command = GetCurrentCommandId(true);
	if (to == TUPLES_TO_WRITE)
		begin_writing(t, false);
	return t;
}

static void
end_scan(Tuples *t)
{
	if (t->scan)
		index_endscan(t->scan);
	if (t->walk)
		table_endscan(t->walk);
	t->scan = NULL;
	t->walk = NULL;
}

static void
end_writing(Tuples *t)
{
	AfterTriggerEndQuery(t->estate);
	EvalPlanQualEnd(&t->recheck);
	ExecDropSingleTupleTableSlot(t->written);
	ExecResetTupleTable(t->estate->es_tupleTable, false);
	ExecCloseResultRelations(t->estate);
	FreeExecutorState(t->estate);
}

/* The locks on the tables stay until the transaction ends. */
void
tuples_close(Tuples *t)
{
	end_scan(t);
	ExecDropSingleTupleTableSlot(t->found);
	if (t->estate)
		end_writing(t);
	if (t->index)
		index_close(t->index, NoLock);
	table_close(t->relation, NoLock);
	pfree(t);
}

/* ------------------------------------------------------------------ finding */

static void
open_index(Tuples *t)
{
	if (!t->index)
		t->index =
			index_open(t->shape->index ? get_relname_relid(t->shape->index, t->schema)
									   : opl_primary_key(t->relation),
					   t->lockmode);
}

static void
init_key(Tuples *t, ScanKey scan_key, const TuplesKey *key)
{
	static const struct
	{
		StrategyNumber strategy;
		Oid            type;
		RegProcedure   function;
	} how[] = {
		[TUPLES_TEXT] = {BTEqualStrategyNumber, TEXTOID, F_TEXTEQ},
		[TUPLES_INT] = {BTEqualStrategyNumber, INT4OID, F_INT4EQ},
		[TUPLES_FROM] = {BTGreaterEqualStrategyNumber, TIMESTAMPTZOID, F_TIMESTAMPTZ_GE},
		[TUPLES_UNTIL] = {BTLessEqualStrategyNumber, TIMESTAMPTZOID, F_TIMESTAMPTZ_LE},
		[TUPLES_LATER_THAN] = {BTGreaterStrategyNumber, TIMESTAMPTZOID, F_TIMESTAMPTZ_GT},
	};

	ScanKeyEntryInitialize(scan_key, 0, key->column, how[key->is].strategy,
						   how[key->is].type, t->index->rd_indcollation[key->column - 1],
						   how[key->is].function, key->value);
}

void
tuples_find(Tuples *t, const TuplesKey *keys, int nkeys)
{
	ScanKeyData scan_keys[TUPLES_KEYS];

	open_index(t);
	if (!t->scan || t->nkeys != nkeys)
	{
		end_scan(t);
		t->scan = opl_index_beginscan(t->relation, t->index, GetActiveSnapshot(), nkeys);
		t->nkeys = nkeys;
	}
	for (int i = 0; i < nkeys; i++)
		init_key(t, &scan_keys[i], &keys[i]);
	index_rescan(t->scan, scan_keys, nkeys, NULL, 0);
}

void
tuples_all(Tuples *t)
{
	end_scan(t);
	t->walk = table_beginscan(t->relation, GetActiveSnapshot(), 0, NULL);
}

bool
tuples_next(Tuples *t)
{
	if (t->walk)
		return table_scan_getnextslot(t->walk, ForwardScanDirection, t->found);
	return index_getnext_slot(t->scan, ForwardScanDirection, t->found);
}

bool
tuples_find_text(Tuples *t, const char *key)
{
	TuplesKey is = {1, TUPLES_TEXT, CStringGetTextDatum(key)};

	tuples_find(t, &is, 1);
	return tuples_next(t);
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
visit(Tuples *t, const ItemPointerData *row)
{
	ItemPointerData copy = *row;

	if (!ItemPointerIsValid(row))
		return false;
	if (t->blocks == 0)
		t->blocks = RelationGetNumberOfBlocks(t->relation);
	if (ItemPointerGetBlockNumber(row) >= t->blocks)
		return false;
	ExecClearTuple(t->found); /* pruning moves what is on the page */
	tidy(t->relation, ItemPointerGetBlockNumber(row));
	return table_tuple_fetch_row_version(t->relation, &copy, GetActiveSnapshot(),
										 t->found);
}

/* It may be another row's place by now, and then the index knows more. */
bool
tuples_find_from(Tuples *t, const ItemPointerData *was_at, const char *key)
{
	return (was_at && visit(t, was_at) && tuples_is(t, 1, key)) ||
		   tuples_find_text(t, key);
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
tuples_lock(Tuples *t, TuplesLock how, LockWaitPolicy wait)
{
	LockTupleMode mode = how == TUPLES_KEEP_KEY && !t->takes_key ? LockTupleNoKeyExclusive
																 : LockTupleExclusive;
	uint8 flags = IsolationUsesXactSnapshot() ? 0 : TUPLE_LOCK_FLAG_FIND_LAST_VERSION;
	ItemPointerData row = t->found->tts_tid;
	TM_FailureData  failure;

	switch (table_tuple_lock(t->relation, &row, GetActiveSnapshot(), t->found, t->command,
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
				 RelationGetRelationName(t->relation));
	}
}

void
tuples_go(Tuples *t, const ItemPointerData *row)
{
	ItemPointerData copy = *row;

	if (!table_tuple_fetch_row_version(t->relation, &copy, SnapshotAny, t->found))
		elog(ERROR, "a row of \"%s\" is gone though it was locked",
			 RelationGetRelationName(t->relation));
}

/* ------------------------------------------------------------------- fields */

Datum
tuples_datum(Tuples *t, int column, bool *null)
{
	return slot_getattr(t->found, column, null);
}

char *
tuples_text(Tuples *t, int column)
{
	bool  null;
	Datum value = tuples_datum(t, column, &null);

	return null ? NULL : TextDatumGetCString(value);
}

void
tuples_name(Tuples *t, int column, char *buffer, size_t size)
{
	bool  null;
	Datum value = tuples_datum(t, column, &null);

	buffer[0] = '\0';
	if (!null)
		text_to_cstring_buffer(DatumGetTextPP(value), buffer, size);
}

int
tuples_int(Tuples *t, int column)
{
	bool  null;
	Datum value = tuples_datum(t, column, &null);

	return null ? 0 : DatumGetInt32(value);
}

int64
tuples_bigint(Tuples *t, int column)
{
	bool  null;
	Datum value = tuples_datum(t, column, &null);

	return null ? 0 : DatumGetInt64(value);
}

bool
tuples_bool(Tuples *t, int column)
{
	bool  null;
	Datum value = tuples_datum(t, column, &null);

	return !null && DatumGetBool(value);
}

TimestampTz
tuples_time(Tuples *t, int column)
{
	bool  null;
	Datum value = tuples_datum(t, column, &null);

	return null ? DT_NOBEGIN : DatumGetTimestampTz(value);
}

void *
tuples_varlena(Tuples *t, int column)
{
	bool  null;
	Datum value = tuples_datum(t, column, &null);

	return null ? NULL : PG_DETOAST_DATUM_COPY(value);
}

char **
tuples_texts(Tuples *t, int column, int *count)
{
	bool  null;
	Datum value = tuples_datum(t, column, &null);

	*count = 0;
	return null ? NULL : texts_of(value, count);
}

static bool
is_text(TupleTableSlot *slot, int column, const char *expected)
{
	bool  null;
	Datum value = slot_getattr(slot, column, &null);
	text *packed = null ? NULL : DatumGetTextPP(value);

	return packed && VARSIZE_ANY_EXHDR(packed) == strlen(expected) &&
		   memcmp(VARDATA_ANY(packed), expected, VARSIZE_ANY_EXHDR(packed)) == 0;
}

bool
tuples_is(Tuples *t, int column, const char *expected)
{
	return is_text(t->found, column, expected);
}

bool
tuples_wrote(Tuples *t, int column, const char *expected)
{
	return is_text(t->written, column, expected);
}

ItemPointerData
tuples_row(Tuples *t)
{
	return t->found->tts_tid;
}

TransactionId
tuples_xmin(Tuples *t)
{
	bool null;

	return DatumGetTransactionId(
		slot_getsysattr(t->found, MinTransactionIdAttributeNumber, &null));
}

/* ------------------------------------------------------------------ writing */

void
tuples_new(Tuples *t)
{
	int natts = RelationGetDescr(t->relation)->natts;

	if (!t->estate)
		begin_writing(t, true);
	ExecClearTuple(t->written);
	memset(t->written->tts_isnull, true, natts);
	for (int i = t->shape->ncolumns; t->defaults && i < natts; i++)
	{
		if (t->defaults[i])
			t->written->tts_values[i] =
				ExecEvalExpr(t->defaults[i], GetPerTupleExprContext(t->estate),
							 &t->written->tts_isnull[i]);
	}
}

/* By reference: the present row stays where it is until it is written. */
void
tuples_copy(Tuples *t)
{
	int natts = t->written->tts_tupleDescriptor->natts;

	ExecClearTuple(t->written);
	slot_getallattrs(t->found);
	memcpy(t->written->tts_values, t->found->tts_values, natts * sizeof(Datum));
	memcpy(t->written->tts_isnull, t->found->tts_isnull, natts * sizeof(bool));
}

void
tuples_set(Tuples *t, int column, Datum value, bool null)
{
	t->written->tts_values[column - 1] = value;
	t->written->tts_isnull[column - 1] = null;
}

void
tuples_set_text(Tuples *t, int column, const char *text)
{
	tuples_set(t, column, text ? CStringGetTextDatum(text) : (Datum) 0, text == NULL);
}

void
tuples_set_int(Tuples *t, int column, int value)
{
	tuples_set(t, column, Int32GetDatum(value), false);
}

void
tuples_set_bool(Tuples *t, int column, bool value)
{
	tuples_set(t, column, BoolGetDatum(value), false);
}

void
tuples_set_time(Tuples *t, int column, TimestampTz at)
{
	tuples_set(t, column, TimestampTzGetDatum(at), at == DT_NOBEGIN);
}

/* The slot holds the new row; what was palloc()ed on the way is short-lived. */
static void
store(Tuples *t)
{
	wrote = true;
	ResetPerTupleExprContext(t->estate);
	ExecStoreVirtualTuple(t->written);
}

/* What goes on relies on it: an operation that is not marked must not be sent. */
static _Noreturn void
refused(Tuples *t)
{
	ereport(
		ERROR,
		(errcode(ERRCODE_TRIGGERED_ACTION_EXCEPTION),
		 errmsg("a trigger on table \"%s\" refused a row",
				RelationGetRelationName(t->relation)),
		 errhint("\\d %s lists its triggers. Those of op_ledger refuse no rows, unless "
				 "session_replication_role is replica.",
				 RelationGetRelationName(t->relation))));
}

void
tuples_insert(Tuples *t)
{
	store(t);
	ExecSimpleRelationInsert(t->target, t->estate, t->written);
	if (!ItemPointerIsValid(&t->written->tts_tid))
		refused(t);
}

/* What the executor does for ON CONFLICT DO NOTHING. */
static bool
insert_speculatively(Tuples *t, List **recheck)
{
	TransactionId xid = GetCurrentTransactionId();
	uint32        token = SpeculativeInsertionLockAcquire(xid);
	bool          conflict = false;

	table_tuple_insert_speculative(t->relation, t->written, t->command, 0, NULL, token);
	*recheck = opl_insert_index_tuples(t->target, t->written, t->estate, &conflict);
	table_tuple_complete_speculative(t->relation, t->written, token, !conflict);
	SpeculativeInsertionLockRelease(xid);
	return !conflict;
}

bool
tuples_insert_first(Tuples *t)
{
	const TriggerDesc *triggers = t->target->ri_TrigDesc;
	ItemPointerData    row;
	List              *recheck;

	store(t);
	if (triggers && triggers->trig_insert_before_row &&
		!ExecBRInsertTriggers(t->estate, t->target, t->written))
		return false;
	t->written->tts_tableOid = RelationGetRelid(t->relation);
	if (RelationGetDescr(t->relation)->constr &&
		RelationGetDescr(t->relation)->constr->has_generated_stored)
		ExecComputeStoredGenerated(t->target, t->estate, t->written, CMD_INSERT);
	ExecConstraints(t->target, t->written, t->estate);
	while (!insert_speculatively(t, &recheck))
	{
		CHECK_FOR_INTERRUPTS();
		if (!opl_check_index_constraints(t->target, t->written, t->estate, &row))
			return false;
	}
	ExecARInsertTriggers(t->estate, t->target, t->written, recheck, NULL);
	return true;
}

ItemPointerData
tuples_update(Tuples *t)
{
	store(t);
	ExecSimpleRelationUpdate(t->target, t->estate, &t->recheck, t->found, t->written);
	if (!ItemPointerIsValid(&t->written->tts_tid) ||
		ItemPointerEquals(&t->written->tts_tid, &t->found->tts_tid))
		refused(t);
	return t->written->tts_tid;
}

static bool
is_there(Tuples *t)
{
	TupleTableSlot *slot = table_slot_create(t->relation, NULL);
	bool            there = table_tuple_fetch_row_version(t->relation, &t->found->tts_tid,
														  SnapshotSelf, slot);

	ExecDropSingleTupleTableSlot(slot);
	return there;
}

void
tuples_delete(Tuples *t)
{
	wrote = true;
	ResetPerTupleExprContext(t->estate);
	ExecSimpleRelationDelete(t->target, t->estate, &t->recheck, t->found);
	if (t->target->ri_TrigDesc && t->target->ri_TrigDesc->trig_delete_before_row &&
		is_there(t))
		refused(t);
}
