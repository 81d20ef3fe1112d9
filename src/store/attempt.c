/*
 * attempt.c - op_attempt: every exchange with a provider, and what it showed.
 *
 * Written once, by whoever holds the operation's row: the worker when it settles,
 * op_report() and op_webhook(); never updated. op_purge() deletes it.
 */
#include "postgres.h"

#include "store/attempt.h"

#include "access/xact.h"
#include "base/by_op_id.h"
#include "base/datum.h"
#include "catalog/pg_type.h"
#include "store/scanner.h"
#include "store/spi.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/snapmgr.h"

#define ATTEMPT_COLUMNS(X)                        \
	X(op_id, TEXTOID, SCANNER_FIXED)              \
	X(n, INT4OID, SCANNER_FIXED)                  \
	X(kind, TEXTOID, SCANNER_FIXED)               \
	X(generation, INT4OID, SCANNER_FIXED)         \
	X(started_at, TIMESTAMPTZOID, SCANNER_FIXED)  \
	X(finished_at, TIMESTAMPTZOID, SCANNER_FIXED) \
	X(verdict, TEXTOID, SCANNER_FIXED)            \
	X(reason, TEXTOID, SCANNER_FIXED)             \
	X(external_id, TEXTOID, SCANNER_FIXED)        \
	X(http_status, INT4OID, SCANNER_FIXED)        \
	X(curl_code, INT4OID, SCANNER_FIXED)          \
	X(bytes_sent, INT8OID, SCANNER_FIXED)         \
	X(peer, TEXTOID, SCANNER_FIXED)               \
	X(connect_us, INT4OID, SCANNER_FIXED)         \
	X(first_byte_us, INT4OID, SCANNER_FIXED)      \
	X(total_us, INT4OID, SCANNER_FIXED)           \
	X(retry_after, INT4OID, SCANNER_FIXED)        \
	X(request_id, TEXTOID, SCANNER_FIXED)         \
	X(response_headers, BYTEAOID, SCANNER_FIXED)  \
	X(response_body, BYTEAOID, SCANNER_FIXED)     \
	X(error, TEXTOID, SCANNER_FIXED)              \
	X(pages, INT4OID, SCANNER_FIXED)              \
	X(objects, JSONBOID, SCANNER_FIXED)

enum
{
#define X(name, type, acts) Att_##name,
	ATTEMPT_COLUMNS(X)
#undef X
};

static const ScannerColumn columns[] = {ATTEMPT_COLUMNS(SCANNER_COLUMN)};
static ScannerMap          map;
static const ScannerTable  table = {
	 .name = "op_attempt", .ncolumns = lengthof(columns), .columns = columns, .map = &map};

/* ------------------------------------------------------------------ writing */

static void
set_bytes(Scanner *s, int column, StringInfo before, const char *data, size_t len)
{
	StringInfoData all;

	if (!before)
	{
		scanner_set(s, column, data ? datum_bytes(data, len) : (Datum) 0, data == NULL);
		return;
	}
	/* behind those of earlier pages */
	initStringInfo(&all);
	appendBinaryStringInfo(&all, before->data, before->len);
	appendBinaryStringInfo(&all, data ? data : "", len);
	scanner_set(s, column, datum_bytes(all.data, all.len), false);
}

static void
set_number(Scanner *s, int column, int value, bool null)
{
	scanner_set(s, column, Int32GetDatum(value), null);
}

/* What was seen of the exchange; nothing when its end was not seen. */
static void
set_evidence(Scanner *s, const Evidence *e)
{
	set_number(s, Att_http_status, e->http_status, e->http_status == 0);
	set_number(s, Att_curl_code, e->curl_code, false);
	scanner_set(s, Att_bytes_sent, Int64GetDatum(e->bytes_sent), e->bytes_sent < 0);
	scanner_set_text(s, Att_peer, e->peer[0] ? e->peer : NULL);
	set_number(s, Att_connect_us, e->connect_us, false);
	set_number(s, Att_first_byte_us, e->first_byte_us, false);
	set_number(s, Att_total_us, e->total_us, false);
	set_number(s, Att_retry_after, e->retry_after, e->retry_after == 0);
	scanner_set_text(s, Att_error, e->error[0] ? e->error : NULL);
}

static void
insert_row(Scanner *s, const LedgerAttempt *a)
{
	const Evidence *e = a->evidence;

	scanner_new(s);
	scanner_set_text(s, Att_op_id, a->op_id);
	scanner_set_int(s, Att_n, a->n);
	scanner_set_text(s, Att_kind, a->kind);
	scanner_set_int(s, Att_generation, a->generation);
	scanner_set_time(s, Att_started_at, a->started_at);
	scanner_set_time(s, Att_finished_at, a->finished_at);
	scanner_set_text(s, Att_verdict, a->verdict);
	scanner_set_text(s, Att_reason, a->reason);
	scanner_set_text(s, Att_external_id, a->external_id);
	if (e)
		set_evidence(s, e);
	scanner_set_text(s, Att_request_id, a->request_id);
	set_bytes(s, Att_response_headers, a->headers, e ? e->headers : NULL,
			  e ? e->headers_len : 0);
	set_bytes(s, Att_response_body, a->bodies, e ? e->body : NULL, e ? e->body_len : 0);
	set_number(s, Att_pages, a->pages, a->pages <= 1);
	if (a->objects)
		scanner_set(s, Att_objects,
					DirectFunctionCall1(jsonb_in, CStringGetDatum(a->objects)), false);
	scanner_insert(s);
}

void
attempt_insert(const Ledger *ledger, const LedgerAttempt *attempts, int n)
{
	Scanner *s = scanner_open(ledger, &table, SCANNER_INSERT);

	for (int i = 0; i < n; i++)
		insert_row(s, &attempts[i]);
	scanner_close(s);
}

/* ------------------------------------------------------------------ reading */

/* All attempts of an operation, by their number. */
static Scanner *
open_all_of(const Ledger *ledger, const char *op_id)
{
	Scanner   *s = scanner_open(ledger, &table, SCANNER_READ);
	ScannerKey key = {Att_op_id, SCANNER_TEXT, CStringGetTextDatum(op_id)};

	scanner_find(s, &key, 1);
	return s;
}

TimestampTz
attempt_last_lookup(const Ledger *ledger, const char *op_id)
{
	Scanner    *s = open_all_of(ledger, op_id);
	TimestampTz last = OPL_NEVER;

	while (scanner_next(s))
	{
		if (scanner_is(s, Att_kind, "lookup"))
			last = Max(last, scanner_time(s, Att_finished_at));
	}
	scanner_close(s);
	return last;
}

char *
attempt_answered(const Ledger *ledger, const char *op_id, int generation)
{
	Scanner *s = open_all_of(ledger, op_id);
	char    *reason = NULL;

	while (scanner_next(s))
	{
		int  status = scanner_int(s, Att_http_status);
		bool marker = scanner_is(s, Att_reason, "no_marker") ||
					  scanner_is(s, Att_reason, "foreign_marker");

		if (status >= 200 && status <= 299 &&
			scanner_int(s, Att_generation) == generation &&
			(scanner_is(s, Att_kind, "send") || scanner_is(s, Att_kind, "report")) &&
			(reason == NULL || marker))
			reason = scanner_text(s, Att_reason);
	}
	scanner_close(s);
	return reason;
}

/* For people, so a statement will do. */
LedgerObject *
attempt_objects(const Ledger *ledger, const char *op_id, int *count)
{
	static const SpiStatement all = {
		"SELECT id, state, seen FROM @._op_objects($1)", 1, {TEXTOID}};
	Datum         values[] = {CStringGetTextDatum(op_id)};
	LedgerObject *objects;

	*count = spi_run(ledger, &all, values, NULL);
	objects = palloc0(sizeof(LedgerObject) * Max(*count, 1));
	for (int i = 0; i < *count; i++)
	{
		objects[i].id = spi_text(ledger, i, 1);
		objects[i].state = spi_text(ledger, i, 2);
		objects[i].seen = spi_text(ledger, i, 3);
	}
	spi_done();
	return objects;
}

/* As open_all_of(), of whatever is committed by now: the transaction's snapshot may be
 * older than the last attempt that was stored, and the operation's row, which the caller
 * holds, as it was then. */
static Scanner *
open_latest_of(const Ledger *ledger, const char *op_id)
{
	Ledger   latest = *ledger;
	Scanner *s;

	CommandCounterIncrement();
	PushActiveSnapshot(GetLatestSnapshot());
	latest.snapshot_of_caller = true;
	s = open_all_of(&latest, op_id);
	return s;
}

static void
close_latest(Scanner *s)
{
	scanner_close(s);
	PopActiveSnapshot();
}

int
attempt_free_number(const Ledger *ledger, const char *op_id, int n)
{
	Scanner *s = open_latest_of(ledger, op_id);
	int      least = 0;
	bool     taken = n <= 0;

	while (scanner_next(s))
	{
		least = Min(least, scanner_int(s, Att_n));
		taken = taken || scanner_int(s, Att_n) == n;
	}
	close_latest(s);
	return taken ? least - 1 : n;
}

bool
attempt_has_event(const Ledger *ledger, const char *op_id, const char *event_id)
{
	Scanner *s = open_latest_of(ledger, op_id);
	bool     known = false;

	while (!known && scanner_next(s))
		known =
			scanner_is(s, Att_kind, "webhook") && scanner_is(s, Att_request_id, event_id);
	close_latest(s);
	return known;
}

char **
attempt_with_object(const Ledger *ledger, const char *external_id, int *count)
{
	Scanner   *s = scanner_open(ledger, &table, SCANNER_READ);
	ScannerKey key = {Att_external_id, SCANNER_TEXT, CStringGetTextDatum(external_id)};
	int        room = 8;
	int        n = 0;
	char     **op_ids = palloc(sizeof(char *) * room);

	scanner_use_index(s, "op_attempt_object");
	scanner_find(s, &key, 1);
	while (scanner_next(s))
	{
		if (n == room)
			op_ids = repalloc(op_ids, sizeof(char *) * (room *= 2));
		op_ids[n++] = scanner_text(s, Att_op_id);
	}
	scanner_close(s);
	by_op_id_sort(op_ids, n, sizeof(char *));
	*count = 0;
	for (int i = 0; i < n; i++)
	{
		if (*count == 0 || strcmp(op_ids[i], op_ids[*count - 1]) != 0)
			op_ids[(*count)++] = op_ids[i];
	}
	return op_ids;
}
