/*
 * statements.c - the texts of the statements.
 */
#include "postgres.h"

#include "statements.h"

#include "catalog/pg_type.h"

#define OPERATION_COLUMNS                                                                \
	"o.op_id, o.action, o.provider, o.state, o.tainted, o.sealed, o.contradiction, "     \
	"o.adopted, o.generation, o.attempts, o.tries, o.trying_since, o.first_sent_at, "    \
	"o.last_sent_at, o.external_id, o.failed_ids, o.reason, o.args_hash, o.created_at, " \
	"o.xmin, o.ctid, o.lease_until"

#define SAVE_OPERATIONS(source)                                                       \
	"UPDATE @.op_operation AS o"                                                      \
	"   SET state = u.state, tainted = u.tainted, sealed = u.sealed,"                 \
	"       contradiction = u.contradiction, attempts = u.attempts, tries = u.tries," \
	"       trying_since = u.trying_since, first_sent_at = u.first_sent_at,"          \
	"       last_sent_at = u.last_sent_at, settled_at = u.settled_at, reason = "      \
	"u.reason,"                                                                       \
	"       external_id = coalesce(u.external_id, o.external_id),"                    \
	"       failed_ids = CASE WHEN u.failed_id IS NULL OR u.failed_id = ANY "         \
	"(o.failed_ids)"                                                                  \
	"                         THEN o.failed_ids"                                      \
	"                         ELSE array_append(o.failed_ids, u.failed_id) END"       \
	"  FROM " source

#define SAVE_COLUMNS                                                           \
	"unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)" \
	" AS u (op_id, state, tainted, sealed, contradiction, attempts, tries, "   \
	"trying_since,"                                                            \
	" first_sent_at, last_sent_at, settled_at, reason, external_id, failed_id, row)"

/* One function scan instead of fifteen: half the cost of bringing rows in. */
#define SAVE_ROWS                                                                        \
	"unnest($1) AS u (op_id text, state text, tainted boolean, sealed text,"             \
	" contradiction boolean, attempts integer, tries integer, trying_since timestamptz," \
	" first_sent_at timestamptz, last_sent_at timestamptz, settled_at timestamptz,"      \
	" reason text, external_id text, failed_id text, row tid)"

#define SAVE_TYPES                                                                \
	{                                                                             \
		TEXTARRAYOID, TEXTARRAYOID, BOOLARRAYOID, TEXTARRAYOID, BOOLARRAYOID,     \
			INT4ARRAYOID, INT4ARRAYOID, TIMESTAMPTZARRAYOID, TIMESTAMPTZARRAYOID, \
			TIMESTAMPTZARRAYOID, TIMESTAMPTZARRAYOID, TEXTARRAYOID, TEXTARRAYOID, \
			TEXTARRAYOID, TIDARRAYOID                                             \
	}

const Statement statements[STMT_COUNT] = {
	[STMT_SPEC] = {"SELECT @._op_spec($1)", 1, {TEXTOID}},
	[STMT_ACTIONS] = {"SELECT name FROM @.op_action ORDER BY name", 0, {0}},
	[STMT_ACTIONS_OF] = {"SELECT name FROM @.op_action WHERE provider = $1 ORDER BY name",
						 1,
						 {TEXTOID}},
	[STMT_WITH_OBJECT] =
		{"SELECT DISTINCT op_id FROM @.op_attempt WHERE external_id = $1", 1, {TEXTOID}},
	[STMT_EVENTS] = {"SELECT least(min(n), 0) - 1, coalesce(bool_or(kind = 'webhook' AND "
					 "request_id = $2), false)"
					 "  FROM @.op_attempt WHERE op_id = $1",
					 2,
					 {TEXTOID, TEXTOID}},
	[STMT_PROVIDERS] =
		{"SELECT p.name, p.paused, coalesce(p.spec ->> 'concurrency',"
		 "                                  f.spec -> 'provider' ->> 'concurrency',"
		 "                                  '64')::integer"
		 "  FROM @.op_provider AS p LEFT JOIN @.op_profile AS f ON f.name = p.profile",
		 0,
		 {0}},
	[STMT_BIRTH] =
		{"WITH o AS ("
		 " INSERT INTO @.op_operation (op_id, action, provider, state, args_hash, run_id,"
		 "                             lane, submitted_by, created_at)"
		 " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
		 " ON CONFLICT (op_id) DO NOTHING RETURNING op_id"
		 "), r AS ("
		 " INSERT INTO @.op_request (op_id, generation, args, key, method, url, headers, "
		 "body,"
		 "                           step, tool_call_id, dedupe_key, traceparent,"
		 "                           not_before, not_after, cost)"
		 " SELECT o.op_id, 1, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, "
		 "$21, $22"
		 "   FROM o"
		 "), d AS ("
		 " INSERT INTO @.op_due (op_id, provider, step, due_at)"
		 " SELECT o.op_id, $3, $23, $24 FROM o WHERE $23 IS NOT NULL"
		 ") SELECT 1 FROM o",
		 24,
		 {TEXTOID, TEXTOID,        TEXTOID,        TEXTOID,    BYTEAOID, TEXTOID,
		  TEXTOID, TEXTOID,        TIMESTAMPTZOID, JSONBOID,   TEXTOID,  TEXTOID,
		  TEXTOID, TEXTARRAYOID,   BYTEAOID,       TEXTOID,    TEXTOID,  TEXTOID,
		  TEXTOID, TIMESTAMPTZOID, TIMESTAMPTZOID, NUMERICOID, TEXTOID,  TIMESTAMPTZOID}},
	[STMT_READ] = {"SELECT " OPERATION_COLUMNS
				   " FROM @.op_operation AS o WHERE o.op_id = $1",
				   1,
				   {TEXTOID}},
	[STMT_LOCK] = {"SELECT " OPERATION_COLUMNS
				   " FROM @.op_operation AS o WHERE o.op_id = $1 FOR NO KEY UPDATE",
				   1,
				   {TEXTOID}},
	[STMT_DUE_AT] = {"SELECT d.due_at FROM @.op_due AS d WHERE d.op_id = $1",
					 1,
					 {TEXTOID}},
	[STMT_NUDGE] = {"INSERT INTO @.op_nudge (op_id, at) VALUES ($1, $2)",
					2,
					{TEXTOID, TIMESTAMPTZOID}},
	[STMT_OFF_AGENDA] = {"DELETE FROM @.op_due WHERE op_id = ANY ($1)",
						 1,
						 {TEXTARRAYOID}},
	[STMT_EVENT] =
		{"INSERT INTO @.op_event (op_id, actor, event, note) VALUES ($1, $2, $3, $4)",
		 4,
		 {TEXTOID, TEXTOID, TEXTOID, TEXTOID}},
	[STMT_EPOCH] = {"SELECT nextval('@.op_epoch')", 0, {0}},
	[STMT_RECOVER] = {"UPDATE @.op_due SET due_at = least(due_at, $2), epoch = NULL"
					  " WHERE ctid = ANY (ARRAY (SELECT ctid FROM @.op_due"
					  "                           WHERE epoch < $3 AND epoch <> ALL ($1)"
					  "                           FOR UPDATE SKIP LOCKED))",
					  3,
					  {INT8ARRAYOID, TIMESTAMPTZOID, INT8OID}},
	[STMT_HOMES] = {"SELECT system_identifier, database_oid, extension_oid, timeline, "
					"control_inode, retired"
					"  FROM @.op_control",
					0,
					{0}},
	[STMT_TAKE_DUE] =
		{"SELECT d.op_id, d.provider, d.step, d.ctid, d.due_at"
		 "  FROM unnest($1, $2, $3, $4) AS p (provider, step, places, since)"
		 " CROSS JOIN LATERAL (SELECT q.op_id, q.provider, q.step, q.ctid, q.due_at"
		 "                       FROM @.op_due AS q"
		 "                      WHERE q.provider = p.provider AND q.step = p.step"
		 "                        AND q.due_at >= p.since AND q.due_at <= $5"
		 "                        AND q.op_id <> ALL ($6)"
		 "                      ORDER BY q.due_at LIMIT p.places FOR UPDATE SKIP LOCKED) "
		 "AS d"
		 " LIMIT $7",
		 7,
		 {TEXTARRAYOID, TEXTARRAYOID, INT4ARRAYOID, TIMESTAMPTZARRAYOID, TIMESTAMPTZOID,
		  TEXTARRAYOID, INT8OID}},
	[STMT_NEXT_DUE] = {"SELECT min(d.due_at)"
					   "  FROM unnest($1, $2) AS p (provider, step)"
					   " CROSS JOIN LATERAL (SELECT q.due_at FROM @.op_due AS q"
					   "                      WHERE q.provider = p.provider AND q.step = "
					   "p.step AND q.due_at > $3"
					   "                      ORDER BY q.due_at LIMIT 1) AS d",
					   3,
					   {TEXTARRAYOID, TEXTARRAYOID, TIMESTAMPTZOID}},
	[STMT_LOCK_OPERATIONS] = {"SELECT " OPERATION_COLUMNS
							  " FROM @.op_operation AS o WHERE o.op_id = ANY ($1)"
							  " FOR NO KEY UPDATE SKIP LOCKED",
							  1,
							  {TEXTARRAYOID}},
	[STMT_LOCK_DUE] =
		{"SELECT d.op_id, d.ctid FROM @.op_due AS d WHERE d.op_id = ANY ($1) FOR "
		 "UPDATE SKIP LOCKED",
		 1,
		 {TEXTARRAYOID}},
	[STMT_HAVE_DUE] = {"SELECT d.op_id FROM @.op_due AS d WHERE d.op_id = ANY ($1)",
					   1,
					   {TEXTARRAYOID}},
	[STMT_REQUESTS] =
		{"SELECT r.op_id, r.generation, r.args, r.method, r.url, r.headers, r.body, "
		 "r.not_after"
		 "  FROM unnest($1, $2) AS u (op_id, generation)"
		 " CROSS JOIN LATERAL (SELECT * FROM @.op_request AS q"
		 "                      WHERE q.op_id = u.op_id AND q.generation = u.generation"
		 "                     OFFSET 0) AS r",
		 2,
		 {TEXTARRAYOID, INT4ARRAYOID}},
	/* By ctid: a join by key may be planned from the wrong side while the table's
	 * statistics are old, and the rows are locked, so they stay where they are. */
	[STMT_SAVE] = {SAVE_OPERATIONS(SAVE_ROWS) " WHERE o.ctid = u.row", 15, SAVE_TYPES,
				   true},
	/* In a session, whose planner may do as it likes: by key, which is safe from
	 * either side for one row. */
	[STMT_SAVE_ONE] = {SAVE_OPERATIONS(SAVE_COLUMNS) " WHERE o.op_id = ANY ($1)", 15,
					   SAVE_TYPES},
	[STMT_PLAN_NOTHING] = {"DELETE FROM @.op_due WHERE ctid = ANY ($1)",
						   1,
						   {TIDARRAYOID}},
	[STMT_PLAN_UPDATE] =
		{"UPDATE @.op_due AS d SET step = u.step, due_at = u.due_at, epoch = u.epoch"
		 "  FROM unnest($1, $2, $3, $4) AS u (row, step, due_at, epoch)"
		 " WHERE d.ctid = u.row",
		 4,
		 {TIDARRAYOID, TEXTARRAYOID, TIMESTAMPTZARRAYOID, INT8ARRAYOID}},
	[STMT_DEFER] = {"UPDATE @.op_due SET due_at = $2 WHERE ctid = ANY ($1)",
					2,
					{TIDARRAYOID, TIMESTAMPTZOID}},
	[STMT_PLAN_INSERT] = {"INSERT INTO @.op_due (op_id, provider, step, due_at, epoch)"
						  " SELECT * FROM unnest($1, $2, $3, $4, $5)",
						  5,
						  {TEXTARRAYOID, TEXTARRAYOID, TEXTARRAYOID, TIMESTAMPTZARRAYOID,
						   INT8ARRAYOID}},
	[STMT_RECORD] =
		{"INSERT INTO @.op_attempt (op_id, n, kind, generation, started_at, finished_at, "
		 "verdict,"
		 "       reason, external_id, http_status, curl_code, bytes_sent, peer, "
		 "connect_us,"
		 "       first_byte_us, total_us, retry_after, request_id, response_headers,"
		 "       response_body, error, pages)"
		 " SELECT * FROM unnest($1) AS u (op_id text, n integer, kind text,"
		 "       generation integer, started_at timestamptz, finished_at timestamptz,"
		 "       verdict text, reason text, external_id text, http_status integer,"
		 "       curl_code integer, bytes_sent bigint, peer text, connect_us integer,"
		 "       first_byte_us integer, total_us integer, retry_after integer,"
		 "       request_id text, response_headers bytea, response_body bytea,"
		 "       error text, pages integer)",
		 22,
		 {TEXTARRAYOID,        INT4ARRAYOID,        TEXTARRAYOID,  INT4ARRAYOID,
		  TIMESTAMPTZARRAYOID, TIMESTAMPTZARRAYOID, TEXTARRAYOID,  TEXTARRAYOID,
		  TEXTARRAYOID,        INT4ARRAYOID,        INT4ARRAYOID,  INT8ARRAYOID,
		  TEXTARRAYOID,        INT4ARRAYOID,        INT4ARRAYOID,  INT4ARRAYOID,
		  INT4ARRAYOID,        TEXTARRAYOID,        BYTEAARRAYOID, BYTEAARRAYOID,
		  TEXTARRAYOID,        INT4ARRAYOID},
		 true},
	[STMT_PAUSE] =
		{"UPDATE @.op_provider SET paused = true, paused_at = $2, paused_note = $3"
		 " WHERE ctid = ANY (ARRAY (SELECT ctid FROM @.op_provider"
		 "                           WHERE name = $1 AND NOT paused FOR NO KEY UPDATE "
		 "SKIP LOCKED))",
		 3,
		 {TEXTOID, TIMESTAMPTZOID, TEXTOID}},
	[STMT_TAKE_NUDGES] = {"DELETE FROM @.op_nudge"
						  " WHERE ctid = ANY (ARRAY (SELECT ctid FROM @.op_nudge LIMIT "
						  "1000 FOR UPDATE SKIP LOCKED))"
						  " RETURNING op_id",
						  0,
						  {0}},
	[STMT_LAST_LOOKUP] = {"SELECT max(a.finished_at) FROM @.op_attempt AS a WHERE "
						  "a.op_id = $1 AND a.kind = 'lookup'",
						  1,
						  {TEXTOID}},
	[STMT_REQUEST] = {"SELECT r.op_id, r.generation, r.args, r.method, r.url, r.headers,"
					  "       r.body, r.not_after, r.key, r.not_before, r.traceparent"
					  "  FROM @.op_request AS r WHERE r.op_id = $1 AND r.generation = $2",
					  2,
					  {TEXTOID, INT4OID}},
	/* What SAVE leaves alone, and a new generation does not inherit. */
	[STMT_NEXT_GENERATION] =
		{"UPDATE @.op_operation SET generation = $2, adopted = $3, external_id = NULL"
		 " WHERE op_id = $1",
		 3,
		 {TEXTOID, INT4OID, BOOLOID}},
	[STMT_NEXT_REQUEST] =
		{"INSERT INTO @.op_request (op_id, generation, args, key, method, url, headers, "
		 "body,"
		 "                          step, tool_call_id, dedupe_key, traceparent,"
		 "                          not_before, not_after, cost)"
		 " SELECT r.op_id, $3, r.args, $4, $5, $6, $7, $8, r.step, r.tool_call_id,"
		 "        r.dedupe_key, r.traceparent, r.not_before, r.not_after, r.cost"
		 "   FROM @.op_request AS r WHERE r.op_id = $1 AND r.generation = $2",
		 8,
		 {TEXTOID, INT4OID, INT4OID, TEXTOID, TEXTOID, TEXTOID, TEXTARRAYOID, BYTEAOID}},
	[STMT_HELD_DIGEST] =
		{"SELECT e.note FROM @.op_event AS e WHERE e.op_id = $1 AND e.event = 'hold'"
		 " ORDER BY e.id DESC LIMIT 1",
		 1,
		 {TEXTOID}},
	/* The longest lease counts: a client may send until its own has run out. */
	[STMT_LEASE] = {"UPDATE @.op_operation SET lease_until = greatest(lease_until, $2)"
					" WHERE op_id = $1",
					2,
					{TEXTOID, TIMESTAMPTZOID}},
	[STMT_ATTEMPT] = {"SELECT a.kind, a.generation, a.started_at FROM @.op_attempt AS a"
					  " WHERE a.op_id = $1 AND a.n = $2",
					  2,
					  {TEXTOID, INT4OID}},
	[STMT_NEXT_LATE] =
		{"SELECT least(min(a.n), 0) - 1 FROM @.op_attempt AS a WHERE a.op_id = $1",
		 1,
		 {TEXTOID}},
	/* Adoption: one at a time, and nobody reads less than before. */
	[STMT_LOCK_HOMES] = {"LOCK TABLE @.op_control IN SHARE ROW EXCLUSIVE MODE", 0, {0}},
	[STMT_RETIRE_HOMES] =
		{"UPDATE @.op_control SET retired = true"
		 " WHERE NOT retired"
		 "   AND (system_identifier <> $1 OR database_oid <> $2 OR extension_oid <> $3)",
		 3,
		 {INT8OID, OIDOID, OIDOID}},
	[STMT_SETTLE_HOME] =
		{"INSERT INTO @.op_control AS c (system_identifier, database_oid, extension_oid,"
		 "                               timeline, control_inode, adopted_at, adopted_by)"
		 " VALUES ($1, $2, $3, $4, $5, $6, $7)"
		 " ON CONFLICT (system_identifier, database_oid, extension_oid) DO UPDATE"
		 "   SET timeline = $4, control_inode = $5, adopted_at = $6, adopted_by = $7,"
		 "       retired = false",
		 7,
		 {INT8OID, OIDOID, OIDOID, INT4OID, INT8OID, TIMESTAMPTZOID, TEXTOID}},
	/* Logical replication brings rows, and leaves sequences behind. */
	[STMT_EVENT_ID] =
		{"SELECT setval('@.op_event_id_seq', m.id)"
		 "  FROM (SELECT max(id) AS id FROM @.op_event) AS m, @.op_event_id_seq AS s"
		 " WHERE m.id >= s.last_value",
		 0,
		 {0}},
	[STMT_ADOPT_SCAN] =
		{"SELECT " OPERATION_COLUMNS ","
		 "       (SELECT r.not_after FROM @.op_request AS r"
		 "         WHERE r.op_id = o.op_id AND r.generation = o.generation)"
		 "  FROM @.op_operation AS o WHERE o.state NOT IN ('confirmed', 'cancelled')"
		 " FOR NO KEY UPDATE OF o",
		 0,
		 {0}},
	[STMT_ADOPT_SAVE] =
		{"UPDATE @.op_operation AS o"
		 "   SET state = u.state, tainted = u.tainted, adopted = u.adopted,"
		 "       first_sent_at = u.first_sent_at, last_sent_at = u.last_sent_at,"
		 "       reason = u.reason, lease_until = greatest(o.lease_until, u.lease_until)"
		 "  FROM unnest($1, $2, $3, $4, $5, $6, $7, $8)"
		 "    AS u (op_id, state, tainted, adopted, first_sent_at, last_sent_at, reason,"
		 "          lease_until)"
		 " WHERE o.op_id = u.op_id",
		 8,
		 {TEXTARRAYOID, TEXTARRAYOID, BOOLARRAYOID, BOOLARRAYOID, TIMESTAMPTZARRAYOID,
		  TIMESTAMPTZARRAYOID, TEXTARRAYOID, TIMESTAMPTZARRAYOID}},
	[STMT_ADOPT_EVENTS] =
		{"INSERT INTO @.op_event (op_id, actor, event, note)"
		 " SELECT u.op_id, $2, 'adopt', $3 FROM unnest($1) AS u (op_id)",
		 3,
		 {TEXTARRAYOID, TEXTOID, TEXTOID}},
	[STMT_AGENDA] = {"SELECT d.step, d.due_at FROM @.op_due AS d WHERE d.op_id = $1",
					 1,
					 {TEXTOID}},
};
