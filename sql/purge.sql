-- op_purge: the bulk goes, the id stays.
\pset format unaligned
\pset tuples_only on
CREATE FUNCTION pg_temp.ended(op_id text, state text, ago interval) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM op_submit(ended.op_id, 'shop.order', '{"sku": "a", "count": 1}');
	ALTER TABLE op_operation DISABLE TRIGGER op_operation_guard;
	UPDATE op_operation AS o SET state = ended.state, attempts = 1, tries = 1, reason = 'test', tainted = ended.state IN ('unknown', 'review'),
	       trying_since = clock_timestamp() - ago, first_sent_at = clock_timestamp() - ago, last_sent_at = clock_timestamp() - ago,
	       settled_at = CASE WHEN ended.state IN ('confirmed', 'failed', 'cancelled') THEN clock_timestamp() - ago END
	 WHERE o.op_id = ended.op_id;
	ALTER TABLE op_operation ENABLE TRIGGER op_operation_guard;
	DELETE FROM op_due AS d WHERE d.op_id = ended.op_id;
	INSERT INTO op_attempt (op_id, n, kind, generation, started_at, finished_at, verdict) VALUES (ended.op_id, 1, 'send', 1, now() - ago, now() - ago, 'confirmed');
	INSERT INTO op_event (op_id, actor, event) VALUES (ended.op_id, 'test', 'note');
END $$;
SELECT pg_temp.ended('old-' || s, s, '2 years') FROM unnest(ARRAY['confirmed', 'failed', 'cancelled', 'unknown', 'review', 'pending', 'held']) AS s;
SELECT pg_temp.ended('old-many-' || n, 'confirmed', '2 years') FROM generate_series(1, 5) AS n;
SELECT pg_temp.ended('young', 'confirmed', '1 hour');
CREATE FUNCTION pg_temp.refused(statement text, OUT message text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE statement;
EXCEPTION WHEN sqlstate 'OL004' THEN
	message := SQLERRM;
END $$;
CREATE VIEW pg_temp.left_over AS
SELECT o.op_id, (SELECT count(*) FROM op_request AS r WHERE r.op_id = o.op_id) AS requests,
       (SELECT count(*) FROM op_attempt AS a WHERE a.op_id = o.op_id) AS attempts, (SELECT count(*) FROM op_event AS e WHERE e.op_id = o.op_id) AS events
  FROM op_operation AS o WHERE o.op_id ~ '^(old-|young)';
\set VERBOSITY terse
SELECT op_purge(NULL);
SELECT op_purge('-1 day');
SELECT op_purge('1 year', 0);
SELECT op_purge();
SELECT op_purge('1 year', settled_before => now());
SELECT op_purge(settled_before => 'infinity');
-- What may still end is neither exported nor purged.
SELECT op_export(NULL);
SELECT op_export('infinity');
SELECT substr(message, 1, 30) FROM pg_temp.refused($$SELECT op_export(clock_timestamp() - interval '50 s')$$);
SELECT substr(message, 1, 29) FROM pg_temp.refused($$SELECT op_purge(settled_before => clock_timestamp() - interval '50 s')$$);
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT op_export('2000-01-01');
ROLLBACK;
\set VERBOSITY default
SELECT op_purge('3 years');
SELECT op_purge('1 year', 3), op_purge('1 year', 3), op_purge('1 year', 3), op_purge('1 year', 3), op_purge('1 year');
SELECT * FROM pg_temp.left_over ORDER BY op_id COLLATE "C";
SELECT event, regexp_replace(note, ' before .*', ' before …') FROM op_event WHERE event = 'purge' ORDER BY id;
-- What came after the end goes as well, in its own time, and what was passed is found in the next round.
INSERT INTO op_attempt (op_id, n, kind, generation, started_at, finished_at, verdict)
SELECT 'old-confirmed', -ceil(n), 'webhook', 1, now() - n * interval '1 year', now() - n * interval '1 year', 'found' FROM unnest(ARRAY[0.5, 1.5] :: float8[]) AS n;
SELECT pg_temp.ended('old-a', 'confirmed', '2 years'), pg_temp.ended('old-z', 'confirmed', '2 years');
SELECT op_purge('1 year', 1), op_purge('1 year', 1), op_purge('1 year', 1), op_purge('1 year', 1);
SELECT sum(requests), sum(attempts) FROM pg_temp.left_over WHERE op_id IN ('old-a', 'old-z', 'old-confirmed');
-- A moment: what is exported at it is purged at it, and nothing else.
SELECT pg_temp.ended('old-c', 'confirmed', '2 years'), pg_temp.ended('old-d', 'cancelled', '1 day'), pg_temp.ended('old-e', 'unknown', '2 years');
SELECT now() - interval '1 year' AS moment \gset
SELECT e::jsonb ->> 'op_id', jsonb_array_length(e::jsonb -> 'requests'), jsonb_array_length(e::jsonb -> 'attempts') FROM op_export(:'moment') AS e;
SELECT op_purge(settled_before => :'moment', batch => 10), op_purge(settled_before => :'moment');
SELECT op_id FROM pg_temp.left_over WHERE op_id ~ '^old-[cde]$' AND requests + attempts = 0;
SELECT count(*) FROM op_export(:'moment');
-- Rolled back: nothing is gone.
SELECT pg_temp.ended('old-b', 'confirmed', '2 years');
BEGIN;
SELECT op_purge('1 year');
ROLLBACK;
SELECT requests, attempts FROM pg_temp.left_over WHERE op_id = 'old-b';

-- A purged id answers, and is not executed again.
SELECT state, effect, is_new, next_action FROM op_submit('old-confirmed', 'shop.order', '{"sku": "a", "count": 1}');
SELECT state FROM op_status('old-failed');
SELECT count(*) FROM op_due WHERE op_id ~ '^old-' AND op_id <> 'old-pending';
\set VERBOSITY terse
SELECT op_submit('old-confirmed', 'shop.order', '{"sku": "b", "count": 1}');
SELECT op_submit('old-confirmed', 'shop.note', '{"sku": "a", "count": 1}');
\set VERBOSITY default
SELECT op_reissue('old-failed', 'again');
SELECT state, message FROM op_cancel('old-failed');
SELECT op_digest('old-confirmed') IS NULL;
SELECT topic, says FROM op_explain('old-failed');
SELECT e -> 'operation' ->> 'state', e -> 'requests', jsonb_array_length(e -> 'attempts'), e -> 'events' -> 0 ->> 'event' FROM op_evidence('old-confirmed') AS e;
SELECT event FROM op_timeline('old-cancelled') WHERE event NOT LIKE 'submitted%';
-- Evidence that comes later may need a person, who cannot have it sent any more.
UPDATE op_operation SET state = 'review', contradiction = true WHERE op_id = 'old-confirmed';
SELECT digest IS NULL, args IS NULL, suggestion LIKE 'Two things%' FROM op_review WHERE op_id = 'old-confirmed';
\set VERBOSITY terse
SELECT op_resolve('old-confirmed', 'unknown', NULL, 'go on');
SELECT state FROM op_resolve('old-confirmed', 'confirmed', 'o_1', 'seen');
\set VERBOSITY default
DELETE FROM op_due WHERE op_id ~ '^old-';
\pset tuples_only off
\pset format aligned
CREATE ROLE op_cleaner;
CREATE ROLE op_guard;
SELECT op_grant('op_cleaner', 'admin'), op_grant('op_guard', 'operate');
\set VERBOSITY terse
SET ROLE op_cleaner;
SELECT op_purge('1 year') AS purged;
SET ROLE op_guard;
SELECT op_purge('1 year') AS purged;
RESET ROLE;
DROP OWNED BY op_cleaner, op_guard;
DROP ROLE op_cleaner, op_guard;
