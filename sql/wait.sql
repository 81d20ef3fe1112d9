-- Waiting for what the caller itself has not committed, or cannot see, is an error.
\set VERBOSITY terse
BEGIN;
SELECT is_new FROM op_submit('w1', 'shop.order', '{"sku": "a", "count": 1}');
SELECT op_wait('w1', '1 s');
ROLLBACK;
BEGIN;
SAVEPOINT a;
SELECT is_new FROM op_submit('w1', 'shop.order', '{"sku": "a", "count": 1}');
RELEASE a;
SELECT op_wait('w1', '1 s');
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT op_wait('later', '1 s');
ROLLBACK;

-- Nothing happens while the provider is paused: the answer is what is known.
SELECT op_id, state, effect, next_action FROM op_wait('later', '10 ms');
SELECT op_id, state FROM op_wait('later', '-1 s');

-- op_execute commits, so it must not stand in somebody's transaction.
BEGIN;
CALL op_execute('w2', 'shop.order', '{"sku": "a", "count": 1}', '10 ms');
ROLLBACK;
DO $$
DECLARE r op_receipt;
BEGIN
	CALL op_execute('w2', 'shop.order', '{"sku": "a", "count": 1}', '10 ms', r);
EXCEPTION WHEN division_by_zero THEN
	NULL;
END $$;
SELECT count(*) FROM op_operation WHERE op_id = 'w2';
\pset format unaligned
CALL op_execute('w2', 'shop.order', '{"sku": "a", "count": 1}', '10 ms');
CALL op_execute('w2', 'shop.order', '{"sku": "a", "count": 1}', '10 ms');
CALL op_execute('w2', 'shop.order', '{"sku": "b", "count": 1}', '10 ms');
\pset format aligned
