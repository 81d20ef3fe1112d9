/*
 * request.c - op_request: what is sent, frozen. One row for each operation and
 * generation.
 *
 * Written once, by op_submit() together with the operation, and by op_reissue() under
 * the operation's lock; never updated. op_purge() deletes it.
 */
#include "postgres.h"

#include "store/request.h"

#include "base/datum.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"

#define REQUEST_COLUMNS(X)                       \
	X(op_id, TEXTOID, SCANNER_FIXED)             \
	X(generation, INT4OID, SCANNER_FIXED)        \
	X(args, JSONBOID, SCANNER_FIXED)             \
	X(key, TEXTOID, SCANNER_FIXED)               \
	X(method, TEXTOID, SCANNER_FIXED)            \
	X(url, TEXTOID, SCANNER_FIXED)               \
	X(headers, TEXTARRAYOID, SCANNER_FIXED)      \
	X(body, BYTEAOID, SCANNER_FIXED)             \
	X(step, TEXTOID, SCANNER_FIXED)              \
	X(tool_call_id, TEXTOID, SCANNER_FIXED)      \
	X(dedupe_key, TEXTOID, SCANNER_FIXED)        \
	X(traceparent, TEXTOID, SCANNER_FIXED)       \
	X(not_before, TIMESTAMPTZOID, SCANNER_FIXED) \
	X(not_after, TIMESTAMPTZOID, SCANNER_FIXED)  \
	X(cost, NUMERICOID, SCANNER_FIXED)           \
	X(base_url, TEXTOID, SCANNER_FIXED)          \
	X(namespace, TEXTOID, SCANNER_FIXED)

enum
{
#define X(name, type, acts) Req_##name,
	REQUEST_COLUMNS(X)
#undef X
};

static const ScannerColumn columns[] = {REQUEST_COLUMNS(SCANNER_COLUMN)};
static ScannerMap          map;
static const ScannerTable  table = {
	 .name = "op_request", .ncolumns = lengthof(columns), .columns = columns, .map = &map};

static void
read_row(Scanner *s, LedgerRequest *out)
{
	bytea *body;

	out->op_id = scanner_text(s, Req_op_id);
	out->generation = scanner_int(s, Req_generation);
	out->args = scanner_varlena(s, Req_args);
	out->key = scanner_text(s, Req_key);
	out->method = scanner_text(s, Req_method);
	out->url = scanner_text(s, Req_url);
	out->headers = scanner_texts(s, Req_headers, &out->nheaders);
	body = scanner_varlena(s, Req_body);
	out->body = body ? VARDATA(body) : NULL;
	out->body_len = body ? VARSIZE(body) - VARHDRSZ : 0;
	out->traceparent = scanner_text(s, Req_traceparent);
	out->not_before = scanner_time(s, Req_not_before);
	out->not_after = scanner_time(s, Req_not_after);
	out->base_url = scanner_text(s, Req_base_url);
	out->name_space = scanner_text(s, Req_namespace);
}

static bool
find_row(Scanner *s, const char *op_id, int generation)
{
	ScannerKey key[] = {{Req_op_id, SCANNER_TEXT, CStringGetTextDatum(op_id)},
						{Req_generation, SCANNER_INT, Int32GetDatum(generation)}};

	scanner_find(s, key, lengthof(key));
	return scanner_next(s);
}

LedgerRequest *
request_read_many(const Ledger *ledger, char **op_ids, const int *generations, int n,
				  int *count)
{
	Scanner       *s = scanner_open(ledger, &table, SCANNER_READ);
	LedgerRequest *found = palloc0(sizeof(LedgerRequest) * Max(n, 1));

	*count = 0;
	for (int i = 0; i < n; i++)
	{
		if (find_row(s, op_ids[i], generations[i]))
			read_row(s, &found[(*count)++]);
	}
	scanner_close(s);
	return found;
}

LedgerRequest *
request_read(const Ledger *ledger, const char *op_id, int generation)
{
	char          *ids[] = {(char *) op_id};
	int            count;
	LedgerRequest *request = request_read_many(ledger, ids, &generation, 1, &count);

	return count > 0 ? request : NULL;
}

static void
set_bytes(Scanner *s, int column, const char *data, size_t len)
{
	scanner_set(s, column, data ? datum_bytes(data, len) : (Datum) 0, data == NULL);
}

void
request_insert(Scanner *command, const LedgerBirth *b)
{
	Scanner *s = scanner_open_beside(command, &table, SCANNER_INSERT);

	scanner_new(s);
	scanner_set_text(s, Req_op_id, b->op_id);
	scanner_set_int(s, Req_generation, 1);
	scanner_set(s, Req_args, JsonbPGetDatum(b->args), false);
	scanner_set_text(s, Req_key, b->key);
	scanner_set_text(s, Req_method, b->method);
	scanner_set_text(s, Req_url, b->url);
	scanner_set(s, Req_headers, datum_texts(b->headers, b->nheaders), false);
	set_bytes(s, Req_body, b->body, b->body_len);
	scanner_set_text(s, Req_step, b->step);
	scanner_set_text(s, Req_tool_call_id, b->tool_call_id);
	scanner_set_text(s, Req_dedupe_key, b->dedupe_key);
	scanner_set_text(s, Req_traceparent, b->traceparent);
	scanner_set(s, Req_not_before, b->not_before, b->no_not_before);
	scanner_set(s, Req_not_after, b->not_after, b->no_not_after);
	scanner_set(s, Req_cost, b->cost, b->no_cost);
	scanner_set_text(s, Req_base_url, b->base_url);
	scanner_set_text(s, Req_namespace, b->name_space);
	scanner_insert(s);
	scanner_close(s);
}

/* What is not rendered is taken over field by field, so that columns of the user's
 * have their default, as in any new row. */
void
request_insert_next(const Ledger *ledger, const char *op_id, int before, int generation,
					const LedgerRequest *r)
{
	static const int taken_over[] = {Req_args,       Req_step,        Req_tool_call_id,
									 Req_dedupe_key, Req_traceparent, Req_not_before,
									 Req_not_after,  Req_cost,        Req_namespace};
	Scanner         *s = scanner_open(ledger, &table, SCANNER_INSERT);

	if (!find_row(s, op_id, before))
		elog(ERROR, "operation \"%s\" has no request to follow", op_id);
	scanner_new(s);
	for (int i = 0; i < lengthof(taken_over); i++)
	{
		bool  null;
		Datum value = scanner_datum(s, taken_over[i], &null);

		scanner_set(s, taken_over[i], value, null);
	}
	scanner_set_text(s, Req_op_id, op_id);
	scanner_set_int(s, Req_generation, generation);
	scanner_set_text(s, Req_key, r->key);
	scanner_set_text(s, Req_method, r->method);
	scanner_set_text(s, Req_url, r->url);
	scanner_set(s, Req_headers, datum_texts(r->headers, r->nheaders), false);
	set_bytes(s, Req_body, r->body, r->body_len);
	scanner_set_text(s, Req_base_url, r->base_url);
	scanner_insert(s);
	scanner_close(s);
}
