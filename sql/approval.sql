-- "approval": true: born held, let go by a person, for the recorded bytes alone.
\pset format unaligned
\pset tuples_only on
SET client_min_messages = error;
SELECT op_action_add('shop.dear', 'shop', '{
	"approval": true, "console": "https://shop.example.com/orders/{external_id}?ref={op_id}",
	"args": {"sku": {"type": "text"}, "count": {"type": "integer"}},
	"request": {"method": "POST", "path": "/orders", "json": {"sku": "{sku}", "count": "{count}", "ref": "{marker}"}},
	"key": {"ttl": "1 d", "stores": "all"},
	"object": {"id": "$.id", "marker": "$.ref"}}');
RESET client_min_messages;
SELECT state, effect, is_new, next_action, retry_after_s, message FROM op_submit('a1', 'shop.dear', '{"sku": "a", "count": 1}');
SELECT state, is_new FROM op_submit('a1', 'shop.dear', '{"sku": "a", "count": 1}');
SELECT count(*) FROM op_due WHERE op_id = 'a1';
SELECT event, actor = current_user, note = op_digest('a1') FROM op_event WHERE op_id = 'a1';

-- The digest can be computed by others, and differs with each part.
SELECT op_digest('a1') = encode(sha256(string_agg(part, '' ORDER BY n)), 'hex')
  FROM op_request, unnest(ARRAY[method::bytea, url::bytea, key::bytea, body] || ARRAY(SELECT h::bytea FROM unnest(headers) AS h)) WITH ORDINALITY AS u (bytes, n),
       LATERAL (SELECT convert_to(octet_length(bytes) || ':', 'UTF8') || bytes) AS p (part)
 WHERE op_id = 'a1';
SELECT op_digest('nobody');
\set VERBOSITY terse
SELECT op_approve('a1', 'fine', 'another digest');
SELECT op_approve('nobody', 'fine');
\set VERBOSITY default
SELECT state, effect, next_action, message FROM op_approve('a1', 'fine', op_digest('a1'));
SELECT event, note FROM op_event WHERE op_id = 'a1' AND event <> 'hold';
SELECT step FROM op_due WHERE op_id = 'a1';
\set VERBOSITY terse
SELECT op_approve('a1', 'fine');
SELECT op_reject('a1', 'no');
\set VERBOSITY default

-- What was changed behind the ledger's back is not approved, whichever part it was.
SELECT state FROM op_submit('a2', 'shop.dear', '{"sku": "a", "count": 1}');
\set VERBOSITY terse
SELECT set_config('test.digest', op_digest('a2'), false) <> '';
CREATE FUNCTION pg_temp.forge(part text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('UPDATE op_request SET %s WHERE op_id = ''a2''', part);
	PERFORM op_approve('a2', 'fine');
	RETURN 'approved';
EXCEPTION WHEN SQLSTATE 'OL007' THEN
	RETURN regexp_replace(SQLERRM, '[0-9a-f]{64}', 'DIGEST');
END $$;
SELECT pg_temp.forge(part) FROM unnest(ARRAY[$$method = 'PUT'$$, $$url = url || '/'$$, $$headers = headers || '{X: y}'$$,
	$$headers = ARRAY[array_to_string(headers, '')]$$, 'body = body || ''\x20''', 'body = NULL', $$key = 'other'$$, 'key = NULL']) AS part;
SELECT op_digest('a2') = current_setting('test.digest');
\set VERBOSITY default
SELECT state, effect, next_action, may_call_again, reason FROM op_reject('a2', 'not needed');
SELECT state FROM op_submit('a2', 'shop.dear', '{"sku": "a", "count": 1}');
SELECT event, note FROM op_event WHERE op_id = 'a2' AND event <> 'hold';

-- A held operation can be withdrawn; approval keeps the moment before which nothing leaves.
SELECT state FROM op_submit('a3', 'shop.dear', '{"sku": "a", "count": 1}');
SELECT state FROM op_cancel('a3', 'changed my mind');
SELECT state FROM op_submit('a4', 'shop.dear', '{"sku": "a", "count": 1}', not_before => '2200-01-01');
SELECT state FROM op_approve('a4');
SELECT due_at = '2200-01-01' FROM op_due WHERE op_id = 'a4';
-- What was rolled back leaves nothing to approve.
BEGIN;
SELECT state FROM op_submit('a5', 'shop.dear', '{"sku": "a", "count": 1}');
ROLLBACK;
SELECT count(*) FROM op_event WHERE op_id = 'a5';
DELETE FROM op_due WHERE op_id IN ('a1', 'a4');
\pset tuples_only off
\pset format aligned
