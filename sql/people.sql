-- What people do: states that they expect, and what they leave behind.
CREATE FUNCTION pg_temp.make(op_id text, state text, action text DEFAULT 'shop.order', sent_ago interval DEFAULT '1 h') RETURNS void
	LANGUAGE plpgsql AS $$
BEGIN
	PERFORM op_submit(make.op_id, make.action, CASE make.action WHEN 'stripe.refund' THEN '{"payment_intent": "pi_1", "amount": 5}'
	                                           ELSE '{"sku": "a", "count": 1}' END::jsonb);
	ALTER TABLE op_operation DISABLE TRIGGER op_operation_guard;
	UPDATE op_operation AS o
	   SET state = make.state, tainted = make.state IN ('unknown', 'accepted', 'review'), attempts = 1, tries = 1,
	       trying_since = clock_timestamp() - sent_ago, first_sent_at = clock_timestamp() - sent_ago,
	       last_sent_at = clock_timestamp() - sent_ago,
	       settled_at = CASE WHEN make.state IN ('confirmed', 'failed', 'cancelled') THEN clock_timestamp() END
	 WHERE o.op_id = make.op_id;
	ALTER TABLE op_operation ENABLE TRIGGER op_operation_guard;
	IF make.state IN ('confirmed', 'failed', 'cancelled', 'held') THEN
		DELETE FROM op_due AS d WHERE d.op_id = make.op_id;
	ELSE
		UPDATE op_due AS d SET step = 'lookup', due_at = clock_timestamp() + interval '1 h' WHERE d.op_id = make.op_id;
	END IF;
END $$;
-- The error as one line each; moments left out.
CREATE FUNCTION pg_temp.fault(query text) RETURNS TABLE (code text, message text, detail text, hint text)
	LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE query;
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	message := regexp_replace(message, '\d{4}-\d\d-\d\d [0-9:.]+([+-]\d+| [A-Z]+)?', 'MOMENT');
	RETURN NEXT;
END $$;
\pset format unaligned
\pset tuples_only on

-- Resolve: confirmed needs to know what, failed needs silence, both need a reason.
SELECT pg_temp.make('p1', 'unknown');
SELECT f.* FROM (VALUES (NULL), ('done'), ('cancelled'), ('pending')) AS v (outcome),
	LATERAL pg_temp.fault(format('SELECT op_resolve(''p1'', %L, NULL, ''why'')', outcome)) AS f;
SELECT * FROM pg_temp.fault($$SELECT op_resolve('p1', 'confirmed', NULL, 'seen')$$);
SELECT * FROM pg_temp.fault($$SELECT op_resolve('p1', 'confirmed', '', 'seen')$$);
SELECT * FROM pg_temp.fault($$SELECT op_resolve('p1', 'confirmed', 'o_1')$$);
SELECT * FROM pg_temp.fault($$SELECT op_resolve('p1', 'failed', 'o_1', 'seen')$$);
SELECT * FROM pg_temp.fault($$SELECT op_resolve('p1', 'confirmed', 'o_1', '  ')$$);
SELECT * FROM pg_temp.fault($$SELECT op_resolve('nobody', 'failed', NULL, 'seen')$$);
SELECT * FROM pg_temp.fault($$SELECT op_resolve(NULL, 'failed', NULL, 'seen')$$);
SELECT count(*) FROM op_event WHERE op_id = 'p1';
SELECT state, effect, external_id, next_action, reason, message FROM op_resolve('p1', 'confirmed', 'o_1', 'seen in the shop');
SELECT event, actor = current_user, note FROM op_event WHERE op_id = 'p1';
SELECT state, external_id, settled_at IS NOT NULL, (SELECT count(*) FROM op_due AS d WHERE d.op_id = o.op_id) FROM op_operation AS o WHERE op_id = 'p1';
SELECT * FROM pg_temp.fault($$SELECT op_resolve('p1', 'failed', NULL, 'no, not there')$$);

SELECT pg_temp.make('p2', 'review', sent_ago => '1 s');
SELECT * FROM pg_temp.fault($$SELECT op_resolve('p2', 'failed', NULL, 'not there')$$);
UPDATE op_operation SET last_sent_at = last_sent_at - interval '1 h' WHERE op_id = 'p2';
SELECT state, effect, may_call_again, next_action, reason FROM op_resolve('p2', 'failed', NULL, 'not there');
SELECT event, note FROM op_event WHERE op_id = 'p2';

-- unknown lets the machine go on, also out of a contradiction; the agenda has one row.
-- Rolled back: the worker looks up at once what is handed back to it.
SELECT pg_temp.make('p3', 'review');
BEGIN;
UPDATE op_operation SET contradiction = true, external_id = 'o_3' WHERE op_id = 'p3';
DELETE FROM op_due WHERE op_id = 'p3';
SELECT * FROM pg_temp.fault($$SELECT op_recheck('p3')$$);
SELECT state, next_action, retry_after_s FROM op_resolve('p3', 'unknown', NULL, 'one of them was a test');
SELECT contradiction, (SELECT array_agg(step) FROM op_due AS d WHERE d.op_id = o.op_id) FROM op_operation AS o WHERE op_id = 'p3';
-- What is on record need not be named.
SELECT state, external_id FROM op_resolve('p3', 'confirmed', NULL, 'seen');
ROLLBACK;
-- Not while it may be on the wire, not what has ended.
SELECT pg_temp.make('p4', s) FROM unnest(ARRAY['submitted']) AS s;
SELECT * FROM pg_temp.fault($$SELECT op_resolve('p4', 'failed', NULL, 'tired of waiting')$$);

-- Recheck: a nudge, where there is a lookup.
BEGIN;
SELECT pg_temp.make('p5', 'unknown');
SELECT state, message FROM op_recheck('p5');
SELECT op_id FROM op_nudge WHERE op_id = 'p5';
DELETE FROM op_nudge WHERE op_id = 'p5';
SELECT event FROM op_event WHERE op_id = 'p5';
DELETE FROM op_due WHERE op_id = 'p5';
SELECT state FROM op_recheck('p5');
SELECT op_id FROM op_nudge WHERE op_id = 'p5';
SELECT step, due_at <= clock_timestamp() FROM op_due WHERE op_id = 'p5';
ROLLBACK;
SELECT * FROM pg_temp.fault($$SELECT op_recheck('p4')$$);
SET client_min_messages = error;
SELECT op_action_add('shop.note', 'shop', '{"args": {"sku": {"type": "text"}, "count": {"type": "integer"}}, "request": {"path": "/notes"}}');
RESET client_min_messages;
SELECT pg_temp.make('p6', 'review', 'shop.note');
SELECT * FROM pg_temp.fault($$SELECT op_recheck('p6')$$);
-- Without a lookup and without a key nothing can go on: it stays with people.
SELECT state, reason FROM op_resolve('p6', 'unknown', NULL, 'try');

-- Reissue: the next generation, once, with a new key and marker; both stay.
SELECT pg_temp.make('p7', 'failed', 'stripe.refund', '1 s');
UPDATE op_operation SET external_id = 're_old', failed_ids = '{re_old}', sealed = 'evidence', tainted = true, reason = 'object_failed' WHERE op_id = 'p7';
SELECT * FROM pg_temp.fault($$SELECT op_reissue('p7', 'the card works now')$$);
UPDATE op_operation SET last_sent_at = last_sent_at - interval '1 h' WHERE op_id = 'p7';
SELECT * FROM pg_temp.fault($$SELECT op_reissue('p7', '')$$);
SELECT state, effect, external_id, may_call_again, reason FROM op_reissue('p7', 'the card works now');
SELECT state, tainted, sealed, generation, attempts, tries, trying_since, first_sent_at, last_sent_at, external_id, failed_ids, reason, settled_at FROM op_operation WHERE op_id = 'p7';
SELECT generation, key, method, url, headers, convert_from(body, 'UTF8'), args FROM op_request WHERE op_id = 'p7' ORDER BY generation;
SELECT step, epoch FROM op_due WHERE op_id = 'p7';
SELECT event, note FROM op_event WHERE op_id = 'p7';
SELECT * FROM pg_temp.fault($$SELECT op_reissue('p7', 'again')$$);
-- A reissued operation is never "cancelled": an earlier generation was sent.
SELECT state, reason FROM op_cancel('p7', 'no');
SELECT state FROM op_reissue('p7', 'yes');
SELECT generation FROM op_operation WHERE op_id = 'p7';
SELECT * FROM pg_temp.fault($$SELECT op_reissue('p1', 'again')$$);
-- not_before still holds, not_after as well.
SELECT state FROM op_submit('p8', 'shop.order', '{"sku": "a", "count": 1}', not_before => '2200-01-01', not_after => '2200-01-02');
UPDATE op_operation SET state = 'failed', attempts = 1 WHERE op_id = 'p8';
DELETE FROM op_due WHERE op_id = 'p8';
SELECT state FROM op_reissue('p8', 'yes');
SELECT due_at = '2200-01-01' FROM op_due WHERE op_id = 'p8';
UPDATE op_operation SET state = 'failed' WHERE op_id = 'p8';
DELETE FROM op_due WHERE op_id = 'p8';
UPDATE op_request SET not_before = NULL, not_after = '2001-01-01' WHERE op_id = 'p8';
SELECT code, message, hint FROM pg_temp.fault($$SELECT op_reissue('p8', 'yes')$$);
-- The arguments are checked against what the action takes now.
SELECT pg_temp.make('p9', 'failed');
SET client_min_messages = error;
UPDATE op_action SET spec = jsonb_set(spec, '{args,sku,min}', '3') WHERE name = 'shop.order';
SELECT * FROM pg_temp.fault($$SELECT op_reissue('p9', 'yes')$$);
UPDATE op_action SET spec = spec #- '{args,sku,min}' WHERE name = 'shop.order';
RESET client_min_messages;
SELECT state, generation FROM op_operation WHERE op_id = 'p9';

-- Every state and every verb: what is allowed, and that nothing else changes anything.
SELECT pg_temp.make('s-' || s, s, sent_ago => '1 d') FROM unnest(ARRAY['held', 'pending', 'submitted', 'unknown', 'accepted', 'review', 'confirmed', 'failed', 'cancelled']) AS s;
CREATE FUNCTION pg_temp.try(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE v text;
BEGIN
	EXECUTE query INTO v;
	RAISE EXCEPTION USING MESSAGE = v, ERRCODE = 'ZZ000';
EXCEPTION WHEN SQLSTATE 'ZZ000' THEN
	RETURN SQLERRM;
WHEN OTHERS THEN
	RETURN SQLSTATE;
END $$;
SELECT s, string_agg(verb || ': ' || pg_temp.try(format(query, 's-' || s)), ', ' ORDER BY verb)
  FROM unnest(ARRAY['held', 'pending', 'submitted', 'unknown', 'accepted', 'review', 'confirmed', 'failed', 'cancelled']) WITH ORDINALITY AS t (s, n),
       (VALUES ('approve', 'SELECT state FROM op_approve(%L)'), ('reject', 'SELECT state FROM op_reject(%L)'), ('cancel', 'SELECT state FROM op_cancel(%L)'),
               ('resolve', 'SELECT state FROM op_resolve(%L, ''failed'', NULL, ''x'')'), ('reissue', 'SELECT state FROM op_reissue(%L, ''x'')'),
               ('recheck', 'SELECT state FROM op_recheck(%L)')) AS v (verb, query)
 GROUP BY s, n ORDER BY n;
SELECT count(*) FROM op_event WHERE op_id LIKE 's-%';
DELETE FROM op_due WHERE op_id ~ '^(p\d|s-)';
\pset tuples_only off
\pset format aligned
