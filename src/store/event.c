/*
 * event.c - op_event: what people and rules did.
 *
 * Appended to by sessions and by the worker, under the lock of the operation that it
 * is about; by the functions of SQL that configure and purge, under their own. Never
 * changed.
 */
#include "postgres.h"

#include "store/event.h"

#include "catalog/pg_type.h"
#include "store/scanner.h"
#include "store/spi.h"
#include "utils/builtins.h"

#define EVENT_COLUMNS(X)                   \
	X(id, INT8OID, SCANNER_DEFAULT)        \
	X(op_id, TEXTOID, SCANNER_FIXED)       \
	X(at, TIMESTAMPTZOID, SCANNER_DEFAULT) \
	X(actor, TEXTOID, SCANNER_FIXED)       \
	X(event, TEXTOID, SCANNER_FIXED)       \
	X(note, TEXTOID, SCANNER_FIXED)

enum
{
#define X(name, type, acts) Event_##name,
	EVENT_COLUMNS(X)
#undef X
};

static const ScannerColumn columns[] = {EVENT_COLUMNS(SCANNER_COLUMN)};
static ScannerMap          map;
static const ScannerTable  table = {
	 .name = "op_event", .ncolumns = lengthof(columns), .columns = columns, .map = &map};

void
event_insert_many(const Ledger *ledger, char **op_ids, int n, const char *actor,
				  const char *event, const char *note)
{
	Scanner *s = scanner_open(ledger, &table, SCANNER_INSERT);

	for (int i = 0; i < n; i++)
	{
		scanner_new(s);
		scanner_set_text(s, Event_op_id, op_ids[i]);
		scanner_set_text(s, Event_actor, actor);
		scanner_set_text(s, Event_event, event);
		scanner_set_text(s, Event_note, note);
		scanner_insert(s);
	}
	scanner_close(s);
}

void
event_insert(const Ledger *ledger, const char *op_id, const char *actor,
			 const char *event, const char *note)
{
	char *ids[] = {(char *) op_id};

	event_insert_many(ledger, ids, 1, actor, event, note);
}

void
event_insert_once(const Ledger *ledger, const char *actor, const char *event,
				  const char *note)
{
	static const SpiStatement same = {"SELECT FROM @.op_event WHERE op_id IS NULL"
									  "   AND event = $1 AND note = $2 LIMIT 1",
									  2,
									  {TEXTOID, TEXTOID}};
	Datum values[] = {CStringGetTextDatum(event), CStringGetTextDatum(note)};
	bool  is_known = spi_run(ledger, &same, values, NULL) > 0;

	spi_done();
	if (!is_known)
		event_insert(ledger, NULL, actor, event, note);
}

char *
event_last_note(const Ledger *ledger, const char *op_id, const char *event)
{
	Scanner   *s = scanner_open(ledger, &table, SCANNER_READ);
	ScannerKey key = {Event_op_id, SCANNER_TEXT, CStringGetTextDatum(op_id)};
	int64      last = 0;
	char      *note = NULL;

	scanner_use_index(s, "op_event_op_id");
	scanner_find(s, &key, 1);
	while (scanner_next(s))
	{
		if (!scanner_is(s, Event_event, event) || scanner_bigint(s, Event_id) <= last)
			continue;
		last = scanner_bigint(s, Event_id);
		note = scanner_text(s, Event_note);
	}
	scanner_close(s);
	return note;
}

bool
event_find_claim(const Ledger *ledger, const char *op_id, int n, TimestampTz *at,
				 int *reissues)
{
	static const SpiStatement claim = {
		"SELECT e.at, (SELECT count(*)::integer FROM @.op_event AS r"
		"               WHERE r.op_id = e.op_id AND r.id > e.id"
		"                 AND r.event LIKE 'reissue %')"
		"  FROM @.op_event AS e WHERE e.op_id = $1 AND e.event = 'claim'"
		"   AND starts_with(e.note, $2) ORDER BY e.id DESC LIMIT 1",
		2,
		{TEXTOID, TEXTOID}};
	Datum values[] = {CStringGetTextDatum(op_id),
					  CStringGetTextDatum(psprintf("attempt %d, ", n))};
	bool  found = spi_run(ledger, &claim, values, NULL) > 0;

	if (found)
	{
		*at = spi_time(0, 1);
		*reissues = spi_int(0, 2);
	}
	spi_done();
	return found;
}

void
event_catch_up(const Ledger *ledger)
{
	static const SpiStatement catch_up = {
		"SELECT setval('@.op_event_id_seq', m.id)"
		"  FROM (SELECT max(id) AS id FROM @.op_event) AS m, @.op_event_id_seq AS s"
		" WHERE m.id >= s.last_value"};

	spi_run(ledger, &catch_up, NULL, NULL);
	spi_done();
}
