-- Every arrow there is.
SELECT from_state, string_agg(to_state, ', ' ORDER BY to_state) AS to_states FROM op_transitions() GROUP BY 1 ORDER BY 1;

-- The guard refuses every other, by hand too; all 81 pairs.
INSERT INTO op_operation (op_id, action, provider, state, args_hash, submitted_by, created_at)
VALUES ('guard', 'shop.order', 'shop', 'pending', '\x00', 'test', now());
CREATE FUNCTION pg_temp.try_arrow(from_state text, to_state text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	ALTER TABLE op_operation DISABLE TRIGGER op_operation_guard;
	UPDATE op_operation SET state = from_state WHERE op_id = 'guard';
	ALTER TABLE op_operation ENABLE TRIGGER op_operation_guard;
	UPDATE op_operation SET state = to_state WHERE op_id = 'guard';
	RETURN true;
EXCEPTION WHEN SQLSTATE 'OL009' THEN
	RETURN false;
END $$;
WITH states AS (SELECT unnest(ARRAY['held', 'pending', 'submitted', 'unknown', 'accepted', 'review', 'confirmed', 'failed', 'cancelled']) AS s)
SELECT count(*) AS pairs,
       count(*) FILTER (WHERE pg_temp.try_arrow(a.s, b.s) <>
                              (a.s = b.s OR EXISTS (SELECT FROM op_transitions() WHERE from_state = a.s AND to_state = b.s))) AS wrong
  FROM states AS a, states AS b;

-- What an operation is, it stays; and its row stays.
\set VERBOSITY terse
UPDATE op_operation SET action = 'stripe.refund' WHERE op_id = 'guard';
UPDATE op_operation SET args_hash = '\x01' WHERE op_id = 'guard';
UPDATE op_operation SET op_id = 'other' WHERE op_id = 'guard';
UPDATE op_operation SET state = 'nowhere' WHERE op_id = 'guard';
DELETE FROM op_operation WHERE op_id = 'guard';
TRUNCATE op_operation;
\set VERBOSITY default

-- Cancelled before anything was sent; failed after a proven non-effect; else too late.
SELECT state, effect, next_action, may_call_again FROM op_submit('c1', 'shop.order', '{"sku": "a", "count": 1}');
SELECT state, effect, next_action, may_call_again, message FROM op_cancel('c1', 'not wanted');
SELECT state, message FROM op_cancel('c1');
SELECT state, is_new FROM op_submit('c1', 'shop.order', '{"sku": "a", "count": 1}');
SELECT count(*) FROM op_due WHERE op_id = 'c1';
SELECT event, actor = current_user AS by_me, note FROM op_event WHERE op_id = 'c1';
SELECT is_new FROM op_submit('c2', 'shop.order', '{"sku": "a", "count": 1}');
UPDATE op_operation SET attempts = 1, trying_since = now(), first_sent_at = now(), last_sent_at = now() WHERE op_id = 'c2';
SELECT state, reason, may_call_again FROM op_cancel('c2');
SELECT is_new FROM op_submit('c3', 'shop.order', '{"sku": "a", "count": 1}');
UPDATE op_operation SET state = 'submitted', attempts = 1, tries = 1 WHERE op_id = 'c3';
SELECT state, effect, message FROM op_cancel('c3');
UPDATE op_operation SET state = 'review' WHERE op_id = 'c3';
SELECT state, effect, next_action FROM op_status('c3');
DELETE FROM op_due WHERE op_id IN ('c3');

SELECT regexp_replace(event, ' by .*', ' by …') AS event, verdict FROM op_timeline('c1');
SELECT op_timeline('nobody');
-- In a transaction that may not write, nothing is written.
SELECT (op_submit('state-read-only', 'shop.order', '{"sku": "a", "count": 1}')).is_new;
BEGIN READ ONLY;
SELECT (op_status('state-read-only')).state;
SELECT op_cancel('state-read-only');
ROLLBACK;
SELECT (op_cancel('state-read-only')).state;
