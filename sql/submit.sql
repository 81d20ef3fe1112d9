-- The id names what is done; whoever calls again means the same operation.
SELECT op_id, state, effect, is_new, next_action, may_call_again
  FROM op_submit('refund-1043-li_2', 'stripe.refund', '{"payment_intent": "pi_3Q", "amount": 38000}');
SELECT op_id, state, effect, is_new, next_action, may_call_again
  FROM op_submit('refund-1043-li_2', 'stripe.refund', '{"amount":   38000, "payment_intent": "pi_3Q"}');
SELECT op_id, state, is_new FROM op_status('refund-1043-li_2');
SELECT args, key, method, url, headers, convert_from(body, 'UTF8') AS body FROM op_request WHERE op_id = 'refund-1043-li_2';
SELECT provider, step, epoch FROM op_due WHERE op_id = 'refund-1043-li_2';

-- Another thing under the same id is refused, and nothing changes.
\set VERBOSITY sqlstate
SELECT op_submit('refund-1043-li_2', 'stripe.refund', '{"payment_intent": "pi_3Q", "amount": 1}');
SELECT op_submit('refund-1043-li_2', 'shop.order', '{"sku": "a", "count": 1}');
SELECT args, generation FROM op_request WHERE op_id = 'refund-1043-li_2';

-- What can be wrong with a call. OL004 argument, OL005 action, OL006 op id.
SELECT op_submit('bad-1', 'stripe.refunds', '{}');
SELECT op_submit('bad-1', NULL, '{}');
SELECT op_submit('bad-1', 'stripe.refund', '{"payment_intent": "pi_3Q"}');
SELECT op_submit('bad-1', 'stripe.refund', '{"payment_intent": "pi_3Q", "amount": "x"}');
SELECT op_submit('bad-1', 'stripe.refund', '{"payment_intent": "pi_3Q", "amount": 0}');
SELECT op_submit('bad-1', 'stripe.refund', '{"payment_intent": "pi_3Q", "amount": 1, "amonut": 1}');
SELECT op_submit('bad-1', 'stripe.refund', '[1]');
SELECT op_submit('bad-1', 'shop.order', '{"sku": "a", "count": 100}');
SELECT op_submit('bad-1', 'shop.order', '{"sku": "a", "count": 1}', not_after => '2000-01-01');
SELECT op_submit('bad-1', 'shop.order', '{"sku": "a", "count": 1}', not_before => '2100-01-02', not_after => '2100-01-01');
SELECT op_submit('bad-1', 'shop.order', '{"sku": "a", "count": 1}', lane => 'a');
SELECT op_submit('bad-1', 'shop.order', '{"sku": "a", "count": 1}', dedupe_key => 'd');
SELECT op_submit('bad-1', 'shop.order', '{"sku": "a", "count": 1}', traceparent => E'00-1\r\nX-Evil: 1');
SELECT op_submit(NULL, 'shop.order', '{"sku": "a", "count": 1}');
SELECT op_submit('', 'shop.order', '{"sku": "a", "count": 1}');
SELECT op_submit(repeat('x', 201), 'shop.order', '{"sku": "a", "count": 1}');
SELECT op_submit('order~2', 'shop.order', '{"sku": "a", "count": 1}');
SELECT op_submit(E'order\n2', 'shop.order', '{"sku": "a", "count": 1}');
SELECT op_submit(E'order\u0085', 'shop.order', '{"sku": "a", "count": 1}');
SELECT op_status('nobody'), op_wait('nobody', '0 s');
SELECT op_wait('nobody', '0 s');
SELECT op_cancel('nobody');
SELECT count(*) FROM op_operation WHERE op_id LIKE 'bad%';
\set VERBOSITY default

-- The errors as a person sees them.
\set SHOW_CONTEXT never
SELECT op_submit('bad-1', 'stripe.refunds', '{}');
SELECT op_submit('bad-1', 'shop.order', '{"sku": "a"}');
SELECT op_submit('order~2', 'shop.order', '{"sku": "a", "count": 1}');
SELECT op_status('nobody');

-- Any printable text is an id, and the key is derived from it in a fixed way.
SELECT count(*) FROM (SELECT (op_submit(id, 'stripe.refund', '{"charge": "ch_1", "amount": 10}')).op_id
  FROM unnest(ARRAY['x', 'a b', 'é', '👍', 'Run:1', 'run:1', repeat('y', 200)]) AS id) AS s;
SELECT op_id, key FROM op_request WHERE args ->> 'charge' = 'ch_1' ORDER BY op_id COLLATE "C";

-- In the caller's transaction: rolled back is never recorded, by savepoints too.
BEGIN;
SAVEPOINT a;
SELECT is_new FROM op_submit('s1', 'shop.order', '{"sku": "a", "count": 1}');
ROLLBACK TO a;
SELECT is_new FROM op_submit('s2', 'shop.order', '{"sku": "a", "count": 1}');
COMMIT;
DO $$
BEGIN
	PERFORM op_submit('s3', 'shop.order', '{"sku": "a", "count": 1}');
	RAISE EXCEPTION 'no';
EXCEPTION WHEN raise_exception THEN
	PERFORM op_submit('s4', 'shop.order', '{"sku": "a", "count": 1}');
END $$;
BEGIN;
SELECT is_new FROM op_submit('s5', 'shop.order', '{"sku": "a", "count": 1}');
ROLLBACK;
SELECT op_id, state FROM op_operation WHERE op_id ~ '^s\d' ORDER BY 1;

-- Many in one statement, from a CTE, twice the same.
WITH s AS (SELECT op_submit('many-' || i % 3, 'shop.order', '{"sku": "a", "count": 1}') AS r FROM generate_series(1, 9) AS i)
SELECT (r).op_id, count(*), count(*) FILTER (WHERE (r).is_new) AS new FROM s GROUP BY 1 ORDER BY 1;

-- Times are columns: not before then.
SELECT state, retry_after_s > 1000 AS later FROM op_submit('later', 'shop.order', '{"sku": "a", "count": 1}',
	not_before => now() + interval '1 day', not_after => now() + interval '2 days', run_id => 'run-1', step => '3',
	tool_call_id => 'call_1', cost => 12.50);
SELECT r.step, r.tool_call_id, r.dedupe_key, r.cost, r.not_after - r.not_before AS span, o.run_id, o.submitted_by = current_user AS by_me
  FROM op_request AS r JOIN op_operation AS o USING (op_id) WHERE op_id = 'later';
