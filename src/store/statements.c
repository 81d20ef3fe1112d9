/*
 * statements.c - the texts of the statements.
 */
#include "postgres.h"

#include "store/statements.h"

#include "catalog/pg_type.h"

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
	[STMT_CONCURRENCY] =
		{"SELECT coalesce(p.spec ->> 'concurrency',"
		 "                f.spec -> 'provider' ->> 'concurrency', '64')::integer"
		 "  FROM @.op_provider AS p LEFT JOIN @.op_profile AS f ON f.name = p.profile"
		 " WHERE p.name = $1",
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
	[STMT_PAUSE] =
		{"WITH paused AS (UPDATE @.op_provider SET paused = true, paused_at = $2,"
		 "                       paused_note = $3, paused_by = NULL"
		 " WHERE ctid = ANY (ARRAY (SELECT ctid FROM @.op_provider"
		 "                           WHERE name = $1 AND NOT paused FOR NO KEY UPDATE "
		 "SKIP LOCKED)) RETURNING name)"
		 " INSERT INTO @.op_event (at, actor, event, note)"
		 " SELECT $2, 'op_ledger', 'provider_paused', p.name || ': ' || $3"
		 "   FROM paused AS p",
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
		{"SELECT o.ctid, (SELECT r.not_after FROM @.op_request AS r"
		 "                 WHERE r.op_id = o.op_id AND r.generation = o.generation)"
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
};
