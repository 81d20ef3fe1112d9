-- What people see: op_review, op_explain, op_evidence, and what they are not shown.
\pset format unaligned
\pset tuples_only on
-- Paths of "redact" as jsonpath in lax mode walks them.
SELECT path, _op_redact(doc, jsonb_build_array(path)) FROM
	(VALUES ('{"card": {"number": "4242", "exp": 12}, "items": [{"secret": 1, "id": 2}, {"secret": null}], "a b": [[1], 2]}'::jsonb)) AS d (doc),
	unnest(ARRAY['$', '$.card', '$.card.number', '$."card"."exp"', '$.items[*].secret', '$.items.secret', '$.items[1]', '$.*.secret', '$.**.secret',
	             '$.**.**.id', '$."a b"[*]', '$."a b"[0][0]', '$.card[*].exp', '$.card[0]', '$.card[1].exp', '$.nothing', '$[*].card.exp']) AS path;
SELECT _op_redact('[{"a": 1}, {"b": 1}, 1]', '["$[1]", "$[*].a"]'), _op_redact('5', '["$.a"]'), _op_redact('5', '["$"]'), _op_redact('{}', '["$.a"]'), _op_redact(NULL, '["$.a"]'), _op_redact('{"a": 1}', NULL);
\set VERBOSITY terse
SELECT _op_check_part('spec of action "x"', jsonb_build_object('redact', jsonb_build_array('$.a', '$.b ? (@.c == 1)')), false);
SELECT _op_check_part('spec of action "x"', '{"console": "javascript:alert(1)"}', false);
SELECT _op_redact('{}', '["$.a ? (@ > 1)"]');
\set VERBOSITY default
-- Bodies: text, bytes, what is redacted, and what cannot be.
SELECT _op_shown(body, form, redact) - 'sha256' FROM (VALUES
	('plain "text"'::bytea, false, NULL::jsonb), ('\xff00', false, NULL), ('\x6100', false, NULL), ('', false, '["$.a"]'), (NULL, false, NULL),
	('{"a": 1, "b": 2}', false, '["$.a"]'), ('{"a": 1, "b"', false, '["$.a"]'),
	('a=1&b=2&c%5Bd%5D=3&c[e]=4&f[]=5&g[0][h]=6&flag', true, '["$.a", "$.c.d", "$.f[*]", "$.g[0].h"]'), ('a=1&b=2', true, '["$"]'), ('a=1', true, NULL)) AS v (body, form, redact);
SELECT _op_shown('abc', false, NULL) ->> 'sha256' = encode(sha256('abc'), 'hex');

-- op_explain says what decide.c says, of what may come as well; and does nothing.
CREATE FUNCTION pg_temp.explain(op_id text) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT format('%s: %s%s', topic, regexp_replace(says, '\d{4}-\d\d-\d\d [0-9:.]+([+-]\d+| [A-Z]+)?', 'MOMENT', 'g'), CASE WHEN at IS NOT NULL THEN ' (at)' END)
	  FROM op_explain(op_id) WHERE topic <> 'worker' $$;
SELECT op_submit('e1', 'stripe.refund', '{"payment_intent": "pi_1", "amount": 5}') IS NOT NULL;
SELECT pg_temp.explain('e1');
BEGIN;
UPDATE op_operation SET state = 'submitted', attempts = 1, tries = 1, trying_since = now(), first_sent_at = now(), last_sent_at = now() WHERE op_id = 'e1';
SELECT pg_temp.explain('e1');
UPDATE op_operation SET state = 'unknown', tainted = true WHERE op_id = 'e1';
SELECT pg_temp.explain('e1');
UPDATE op_due SET step = 'lookup' WHERE op_id = 'e1';
SELECT pg_temp.explain('e1');
-- The window has closed: it is looked up instead.
UPDATE op_operation SET first_sent_at = now() - interval '25 h', last_sent_at = now() - interval '1 h', trying_since = now() - interval '1 h', sealed = 'refused' WHERE op_id = 'e1';
UPDATE op_due SET step = 'send' WHERE op_id = 'e1';
SELECT pg_temp.explain('e1');
UPDATE op_operation SET state = 'review', contradiction = true WHERE op_id = 'e1';
DELETE FROM op_due WHERE op_id = 'e1';
SELECT pg_temp.explain('e1');
UPDATE op_operation SET state = 'confirmed', contradiction = false WHERE op_id = 'e1';
SELECT pg_temp.explain('e1');
ROLLBACK;
SELECT state, attempts FROM op_operation WHERE op_id = 'e1';
SELECT pg_temp.explain('a3');
\set VERBOSITY terse
SELECT op_explain('nobody');
SELECT op_evidence('nobody');
\set VERBOSITY default

-- op_review: decisions and approvals, each with what to do.
SET client_min_messages = error;
UPDATE op_action SET spec = spec || '{"redact": ["$.sku"], "console": "https://shop.example.com/o/{external_id}?ref={marker}&sku={sku}"}' WHERE name = 'shop.order';
RESET client_min_messages;
DELETE FROM op_due WHERE op_id = 'e1';
SELECT op_submit('v1', 'shop.order', '{"sku": "a/b", "count": 1}') IS NOT NULL, op_submit('v2', 'shop.dear', '{"sku": "b", "count": 1}') IS NOT NULL;
UPDATE op_operation SET state = 'submitted', attempts = 2, tries = 1, trying_since = '2025-01-01', first_sent_at = '2025-01-01', last_sent_at = '2025-01-01' WHERE op_id = 'v1';
UPDATE op_operation SET state = 'review', tainted = true, reason = 'absent' WHERE op_id = 'v1';
DELETE FROM op_due WHERE op_id = 'v1';
INSERT INTO op_attempt (op_id, n, kind, generation, started_at, finished_at, verdict, reason, http_status, response_headers, response_body)
VALUES ('v1', 1, 'send', 1, '2025-01-01', '2025-01-01', 'unknown', 'timeout', NULL, NULL, NULL),
       ('v1', 2, 'lookup', 1, '2025-01-02', '2025-01-02', 'absent', 'absent', 200, 'HTTP/1.1 200 OK', '{"orders": [], "sku": "a/b"}');
\pset expanded on
SELECT op_id, state, waits_for, action, args, generation, reason, external_id, jsonb_path_query_array(evidence, '$[*].verdict') AS verdicts,
       key_forgotten_at IS NULL AS no_key, quiet_at > last_sent_at AS quiet, next_lookup_at, suggestion, console, digest = op_digest(op_id) AS digest
  FROM op_review WHERE op_id IN ('v1', 'v2') ORDER BY op_id;
UPDATE op_operation SET external_id = 'o 7' WHERE op_id = 'v1';
SELECT console FROM op_review WHERE op_id = 'v1';
UPDATE op_operation SET last_sent_at = clock_timestamp(), contradiction = true WHERE op_id = 'v1';
SELECT suggestion FROM op_review WHERE op_id = 'v1';
-- An action that is gone hides nothing else.
BEGIN;
ALTER TABLE op_action DISABLE TRIGGER op_action_in_use;
DELETE FROM op_action WHERE name = 'shop.order';
SELECT suggestion, quiet_at, op_digest(op_id) IS NOT NULL AS digest FROM op_review WHERE op_id = 'v1';
ROLLBACK;
UPDATE op_operation SET contradiction = false, reason = 'gave_up' WHERE op_id = 'v1';
SELECT regexp_replace(suggestion, '\d{4}-\d\d-\d\d [0-9:.]+([+-]\d+| [A-Z]+)?', 'MOMENT') FROM op_review WHERE op_id = 'v1';
\pset expanded off

-- op_evidence: everything, but what is redacted.
SELECT key, jsonb_typeof(value) FROM jsonb_each(op_evidence('v1'));
SELECT e -> 'operation' ->> 'state', e -> 'requests' -> 0 -> 'args', e -> 'requests' -> 0 -> 'body' -> 'json', e -> 'requests' -> 0 ->> 'digest' = op_digest('v1'),
       e -> 'attempts' -> 1 ->> 'response_headers', e -> 'attempts' -> 1 -> 'response_body' -> 'json', e::text LIKE '%a/b%'
  FROM op_evidence('v1') AS e;
SELECT op_evidence('v2') -> 'requests' -> 0 -> 'body' ->> 'text', op_evidence('v2') -> 'events' -> 0 ->> 'event';
SELECT jsonb_array_length(op_evidence('p7') -> 'requests'), jsonb_array_length(op_evidence('p7') -> 'events');
SELECT state FROM op_reject('v2');
SET client_min_messages = error;
UPDATE op_action SET spec = spec - 'redact' - 'console' WHERE name = 'shop.order';
RESET client_min_messages;
\pset tuples_only off
\pset format aligned

-- A role with 'operate' sees and decides; one with 'submit' does not.
CREATE ROLE op_viewer;
CREATE ROLE op_caller;
SELECT op_grant('op_viewer', 'operate'), op_grant('op_caller', 'submit');
\set VERBOSITY terse
SET ROLE op_viewer;
SELECT op_id, waits_for, digest IS NOT NULL AS digest, suggestion IS NOT NULL AS suggestion FROM op_review WHERE op_id = 'v1';
SELECT count(*) > 3 AS explained FROM op_explain('v1');
SELECT op_evidence('v1') IS NOT NULL AS evidence, op_digest('v1') IS NOT NULL AS digest;
SELECT actor, event FROM op_resolve('v1', 'confirmed', 'o_9', 'seen') AS r, op_event AS e WHERE e.op_id = r.op_id;
SELECT actor, event, note FROM op_event WHERE op_id = 'v1';
SET ROLE op_caller;
SELECT * FROM op_review;
SELECT op_resolve('v1', 'confirmed', 'o_9', 'seen');
SELECT op_reissue('v1', 'please');
SELECT op_approve('v2');
SELECT op_recheck('v1');
SELECT op_evidence('v1');
RESET ROLE;
DROP OWNED BY op_viewer, op_caller;
DROP ROLE op_viewer, op_caller;
