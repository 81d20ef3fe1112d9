-- The public interface, fixed: what others build on, name by name. Whoever changes it changes this file,
-- and says so in CHANGELOG.md.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pgtap;
-- Not in public: nothing may depend on the schema it is in.
CREATE SCHEMA op_contract;
CREATE EXTENSION op_ledger SCHEMA op_contract;
CREATE ROLE op_contract_submit;
CREATE ROLE op_contract_operate;
CREATE ROLE op_contract_admin;
CREATE ROLE op_contract_stranger;
SELECT op_contract.op_grant('op_contract_submit', 'submit'), op_contract.op_grant('op_contract_operate', 'operate'),
       op_contract.op_grant('op_contract_admin', 'admin') \g /dev/null
SET search_path = op_contract, public;
BEGIN;
SELECT * FROM no_plan();

-- name, arguments, result, volatility, with its owner's rights, who may call it (each level includes those before)
CREATE TEMP TABLE contract (name text, arguments text, result text, volatility "char", definer boolean, level text);
INSERT INTO contract VALUES
	('op_action_add', 'name text, provider text, spec jsonb',
	 'void', 'v', true, 'admin'),
	('op_adopt', 'note text, force boolean DEFAULT false, OUT follows text, OUT operations bigint',
	 'SETOF record', 'v', true, 'admin'),
	('op_approve', 'op_id text, note text DEFAULT NULL::text, digest text DEFAULT NULL::text',
	 'op_receipt', 'v', true, 'operate'),
	('op_cancel', 'op_id text, note text DEFAULT NULL::text',
	 'op_receipt', 'v', true, 'operate'),
	('op_claim', 'op_id text, lease interval DEFAULT ''00:00:30''::interval',
	 'op_ticket', 'v', true, 'submit'),
	('op_report', 'op_id text, attempt integer, status integer DEFAULT NULL::integer, headers jsonb DEFAULT NULL::jsonb, body bytea DEFAULT NULL::bytea, error text DEFAULT NULL::text, sent boolean DEFAULT NULL::boolean',
	 'op_receipt', 'v', true, 'submit'),
	('op_canonical_json', 'value jsonb',
	 'text', 'i', false, 'submit'),
	('op_digest', 'op_id text, generation integer DEFAULT NULL::integer',
	 'text', 's', true, 'operate'),
	('op_evidence', 'op_id text',
	 'jsonb', 's', true, 'operate'),
	('op_execute', 'IN op_id text, IN action text, IN args jsonb DEFAULT ''{}''::jsonb, IN timeout interval DEFAULT ''00:00:10''::interval, INOUT result op_receipt DEFAULT NULL::op_receipt',
	 NULL, 'v', false, 'submit'),
	('op_explain', 'op_id text',
	 'TABLE(topic text, at timestamp with time zone, says text)', 's', true, 'operate'),
	('op_export', 'settled_before timestamp with time zone',
	 'SETOF text', 'v', true, 'operate'),
	('op_grant', 'role text, level text',
	 'void', 'v', false, 'owner'),
	('op_health', '',
	 'TABLE(check_name text, status text, detail text, hint text)', 's', true, 'operate'),
	('op_key', 'kind text, VARIADIC parts text[]',
	 'text', 'i', false, 'submit'),
	('op_provider_add', 'name text, profile text DEFAULT ''http''::text, base_url text DEFAULT NULL::text, secret text DEFAULT NULL::text, spec jsonb DEFAULT ''{}''::jsonb, account text DEFAULT NULL::text',
	 'void', 'v', true, 'admin'),
	('op_provider_pause', 'name text, note text DEFAULT NULL::text',
	 'void', 'v', true, 'operate'),
	('op_provider_resume', 'name text',
	 'void', 'v', true, 'operate'),
	('op_provider_rotate', 'name text, secret text',
	 'void', 'v', true, 'admin'),
	('op_purge', 'older_than interval DEFAULT NULL::interval, batch integer DEFAULT 1000, settled_before timestamp with time zone DEFAULT NULL::timestamp with time zone',
	 'integer', 'v', true, 'admin'),
	('op_recheck', 'op_id text',
	 'op_receipt', 'v', true, 'operate'),
	('op_reissue', 'op_id text, note text',
	 'op_receipt', 'v', true, 'operate'),
	('op_reject', 'op_id text, note text DEFAULT NULL::text',
	 'op_receipt', 'v', true, 'operate'),
	('op_resolve', 'op_id text, outcome text, external_id text DEFAULT NULL::text, note text DEFAULT NULL::text',
	 'op_receipt', 'v', true, 'operate'),
	('op_run_key', 'run_id text, step text, tool text, args jsonb',
	 'text', 'i', false, 'submit'),
	('op_status', 'op_id text',
	 'op_receipt', 's', true, 'submit'),
	('op_submit', 'op_id text, action text, args jsonb DEFAULT ''{}''::jsonb, run_id text DEFAULT NULL::text, step text DEFAULT NULL::text, tool_call_id text DEFAULT NULL::text, traceparent text DEFAULT NULL::text, dedupe_key text DEFAULT NULL::text, lane text DEFAULT NULL::text, not_before timestamp with time zone DEFAULT NULL::timestamp with time zone, not_after timestamp with time zone DEFAULT NULL::timestamp with time zone, cost numeric DEFAULT NULL::numeric',
	 'op_receipt', 'v', true, 'submit'),
	('op_timeline', 'op_id text',
	 'TABLE(at timestamp with time zone, event text, n integer, verdict text, detail text)', 's', true, 'operate'),
	('op_transitions', 'OUT from_state text, OUT to_state text',
	 'SETOF record', 'i', false, 'submit'),
	('op_wait', 'op_id text, timeout interval DEFAULT ''00:00:10''::interval',
	 'op_receipt', 'v', true, 'submit'),
	('op_webhook', 'provider text, headers jsonb, body bytea',
	 'op_receipt', 'v', true, 'submit');

CREATE TEMP VIEW ours AS
SELECT p.oid, p.proname, pg_get_function_arguments(p.oid) AS arguments, pg_get_function_result(p.oid) AS result, p.provolatile, p.prosecdef, p.proconfig
  FROM pg_proc AS p
  JOIN pg_depend AS d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
  JOIN pg_extension AS e ON e.oid = d.refobjid AND e.extname = 'op_ledger';

SELECT is((SELECT string_agg(o.arguments || ' -> ' || coalesce(o.result, ''), '; ') FROM ours AS o WHERE o.proname = c.name),
          c.arguments || ' -> ' || coalesce(c.result, ''), c.name || ': arguments and result') FROM contract AS c;
SELECT is(o.provolatile, c.volatility, c.name || ': volatility') FROM contract AS c JOIN ours AS o ON o.proname = c.name;
SELECT is(o.prosecdef, c.definer, c.name || ': whose rights') FROM contract AS c JOIN ours AS o ON o.proname = c.name;
SELECT is_empty($$SELECT proname FROM ours WHERE proname !~ '^_op_' EXCEPT SELECT name FROM contract$$, 'no public function is missing here');
SELECT is_empty($$SELECT proname FROM ours WHERE proname !~ '^_?op_'$$, 'every name begins with op_ or _op_');
SELECT is_empty($$SELECT proname FROM ours WHERE obj_description(oid, 'pg_proc') IS NULL$$, 'every function says what it does');
SELECT is_empty($$SELECT proname FROM ours WHERE prosecdef
	AND NOT coalesce('search_path=pg_catalog, op_contract, pg_temp' = ANY (proconfig), false)$$, 'owner''s rights only with a search_path of its own');

-- Who may call what.
CREATE TEMP TABLE rank (level text, n integer);
INSERT INTO rank VALUES ('submit', 1), ('operate', 2), ('admin', 3), ('owner', 4);
SELECT is(has_function_privilege('op_contract_' || h.level, o.oid, 'EXECUTE'), h.n >= r.n, format('%s: called by %s', c.name, h.level))
  FROM contract AS c JOIN ours AS o ON o.proname = c.name JOIN rank AS r ON r.level = c.level CROSS JOIN rank AS h WHERE h.level <> 'owner'
 ORDER BY c.name, h.n;
SELECT is_empty($$SELECT proname FROM ours WHERE has_function_privilege('op_contract_stranger', oid, 'EXECUTE')$$, 'a stranger calls nothing');
SELECT is_empty($$SELECT proname FROM ours WHERE proname ~ '^_op_' AND has_function_privilege('op_contract_submit', oid, 'EXECUTE')$$, 'an application calls nothing private');

-- What rows and receipts look like: column type, in order.
CREATE TEMP TABLE shape (name text, kind "char", columns text);
INSERT INTO shape VALUES
	('op_ticket', 'c', 'op_id text, decision text, attempt integer, key text, marker text, args jsonb, method text, url text, headers text[], body bytea, lease_until timestamp with time zone, state text, external_id text, retry_after_s integer, reason text, message text'),
	('op_receipt', 'c', 'op_id text, state text, effect text, is_new boolean, external_id text, next_action text, may_call_again boolean, retry_after_s integer, reason text, message text'),
	('op_action', 'r', 'name text, provider text, template text, spec jsonb, version bigint'),
	('op_attempt', 'r', 'op_id text, n integer, kind text, generation integer, started_at timestamp with time zone, finished_at timestamp with time zone, verdict text, reason text, external_id text, http_status integer, curl_code integer, bytes_sent bigint, peer text, connect_us integer, first_byte_us integer, total_us integer, retry_after integer, request_id text, response_headers bytea, response_body bytea, error text, pages integer, objects jsonb'),
	('op_control', 'r', 'system_identifier bigint, database_oid oid, extension_oid oid, timeline integer, control_inode bigint, adopted_at timestamp with time zone, adopted_by text, retired boolean'),
	('op_due', 'r', 'op_id text, provider text, step text, due_at timestamp with time zone, epoch bigint'),
	('op_event', 'r', 'id bigint, op_id text, at timestamp with time zone, actor text, event text, note text'),
	('op_nudge', 'r', 'op_id text, at timestamp with time zone'),
	('op_operation', 'r', 'op_id text, action text, provider text, state text, tainted boolean, sealed text, contradiction boolean, adopted boolean, generation integer, attempts integer, tries integer, trying_since timestamp with time zone, first_sent_at timestamp with time zone, last_sent_at timestamp with time zone, lease_until timestamp with time zone, external_id text, failed_ids text[], reason text, args_hash bytea, run_id text, lane text, undoes text, submitted_by text, created_at timestamp with time zone, settled_at timestamp with time zone, place bigint'),
	('op_profile', 'r', 'name text, spec jsonb, version bigint'),
	('op_provider', 'r', 'name text, profile text, base_url text, secret text, spec jsonb, paused boolean, paused_at timestamp with time zone, paused_note text, version bigint, paused_by text, account text'),
	('op_request', 'r', 'op_id text, generation integer, args jsonb, key text, method text, url text, headers text[], body bytea, step text, tool_call_id text, dedupe_key text, traceparent text, not_before timestamp with time zone, not_after timestamp with time zone, cost numeric, base_url text, namespace text'),
	('op_review', 'v', 'op_id text, state text, waits_for text, action text, provider text, args jsonb, generation integer, submitted_by text, created_at timestamp with time zone, first_sent_at timestamp with time zone, last_sent_at timestamp with time zone, reason text, contradiction boolean, external_id text, failed_ids text[], evidence jsonb, objects jsonb, key_forgotten_at timestamp with time zone, quiet_at timestamp with time zone, next_lookup_at timestamp with time zone, suggestion text, console text, digest text');

CREATE TEMP VIEW our_relations AS
SELECT c.oid, c.relname, c.relkind,
       (SELECT string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ', ' ORDER BY a.attnum)
          FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS columns
  FROM pg_class AS c WHERE c.relnamespace = 'op_contract'::regnamespace AND c.relkind IN ('r', 'v', 'c');
SELECT is((SELECT r.columns FROM our_relations AS r WHERE r.relname = s.name AND r.relkind = s.kind), s.columns, s.name || ': columns') FROM shape AS s;
SELECT is_empty($$SELECT relname FROM our_relations WHERE relname !~ '^_op_' EXCEPT SELECT name FROM shape$$, 'no public table, view or type is missing here');
SELECT is_empty($$SELECT relname FROM our_relations WHERE relkind <> 'c' AND has_table_privilege('op_contract_stranger', oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE')$$, 'a stranger reads and writes nothing');
SELECT is_empty($$SELECT relname FROM our_relations WHERE relkind <> 'c' AND has_table_privilege('op_contract_submit', oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE')$$, 'an application reads and writes no table');
SELECT is_empty($$SELECT relname FROM our_relations WHERE relkind <> 'c' AND NOT has_table_privilege('op_contract_operate', oid, 'SELECT')$$, 'operate reads every table');
SELECT is_empty($$SELECT relname FROM our_relations WHERE relkind <> 'c' AND has_table_privilege('op_contract_operate', oid, 'INSERT, UPDATE, DELETE, TRUNCATE')$$, 'and writes none');
SELECT is_empty($$SELECT relname FROM our_relations WHERE relkind <> 'c' AND relname NOT IN ('op_provider', 'op_action')
	AND has_table_privilege('op_contract_admin', oid, 'INSERT, UPDATE, DELETE, TRUNCATE')$$, 'admin changes configuration alone');
SELECT is_empty($$SELECT relname FROM our_relations WHERE obj_description(oid, 'pg_class') IS NULL AND relkind <> 'c'$$, 'every table and view says what it is');
SELECT is_empty($$SELECT r.relname, a.attname FROM our_relations AS r JOIN pg_attribute AS a ON a.attrelid = r.oid
	WHERE a.attnum > 0 AND NOT a.attisdropped AND col_description(r.oid, a.attnum) IS NULL$$, 'every column says what it is');
SELECT is_empty($$SELECT conrelid::regclass FROM pg_constraint WHERE contype = 'f' AND connamespace = 'op_contract'::regnamespace$$, 'no foreign keys: a dump loads in any order');
SELECT is((SELECT string_agg(c.relname, ' ' ORDER BY c.relname) FROM pg_extension AS e, unnest(e.extconfig) AS t (oid) JOIN pg_class AS c ON c.oid = t.oid WHERE e.extname = 'op_ledger'),
	'op_action op_attempt op_control op_event op_event_id_seq op_operation op_provider op_request', 'what a dump keeps: all but the agenda');
SELECT col_is_pk('op_contract', 'op_operation', 'op_id', 'one row per op id');
SELECT col_is_pk('op_contract', 'op_request', ARRAY['op_id', 'generation'], 'one request per generation');
SELECT col_is_pk('op_contract', 'op_due', 'op_id', 'one next step per operation');
SELECT col_is_pk('op_contract', 'op_attempt', ARRAY['op_id', 'n'], 'exchanges are numbered');

-- SQLSTATEs that clients catch.
SELECT throws_ok($$SELECT op_status('nobody')$$, 'OL001', NULL, 'OL001: no such operation');
SELECT throws_ok($$SELECT op_provider_add('x', spec => '{"nonsense": 1}')$$, 'OL003', NULL, 'OL003: a spec is wrong');
SELECT throws_ok($$SELECT op_resolve('nobody', 'maybe', NULL, 'x')$$, 'OL004', NULL, 'OL004: an argument is wrong');
SELECT throws_ok($$SELECT op_submit('a', 'no.action')$$, 'OL005', NULL, 'OL005: no such action');
SELECT throws_ok($$SELECT op_submit('', 'no.action')$$, 'OL006', NULL, 'OL006: not an op id');
SELECT throws_ok($$DELETE FROM op_operation$$, 'OL009', NULL, 'OL009: not an arrow of the states');
SELECT * FROM finish();
ROLLBACK;

RESET search_path;
DROP OWNED BY op_contract_submit, op_contract_operate, op_contract_admin;
DROP ROLE op_contract_submit, op_contract_operate, op_contract_admin, op_contract_stranger;
DROP EXTENSION op_ledger;
DROP SCHEMA op_contract;
