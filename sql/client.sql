-- A client sends by itself: with a ticket that it claims, and reports.
SET client_min_messages = warning;
SELECT op_provider_add('sdk', base_url => 'https://127.0.0.1:1', spec => '{"namespace": "sh_",
	"key": {"in": "header", "ttl": "24 h", "stores": "all"}, "retry": {"initial": "10 min", "max": "10 min", "jitter": 0}}');
SELECT op_action_add('sdk.order', 'sdk', '{"executor": "client",
	"args": {"sku": {"type": "text"}},
	"request": {"method": "POST", "path": "/orders", "json": {"sku": "{sku}", "ref": "{marker}"}},
	"object": {"id": "$.id", "marker": "$.ref"}}');
RESET client_min_messages;

-- The ticket: what is sent, under which key, until when. No secret is in it.
SELECT state FROM op_submit('x1', 'sdk.order', '{"sku": "a"}');
SELECT decision, attempt, key, marker, args, method, url, headers, convert_from(body, 'UTF8') AS body,
       lease_until - now() BETWEEN '25 s' AND '35 s' AS leased, state, message FROM op_claim('x1');
SELECT decision, attempt, body, state, retry_after_s BETWEEN 25 AND 30 AS later, message FROM op_claim('x1', '10 s');
SELECT state, effect, next_action FROM op_status('x1');
SELECT event, actor = current_user AS by_me, regexp_replace(note, 'until .*', 'until …') AS note FROM op_event WHERE op_id = 'x1';

-- What it saw is classified like any other answer.
SELECT state, external_id, next_action FROM op_report('x1', 1, 200, '{"Content-Type": "application/json", "X-Request-Id": ["r1"]}',
                                                      '{"id": "o_1", "ref": "sh_x1"}');
SELECT decision, state, external_id, message FROM op_claim('x1');
SELECT n, kind, generation, verdict, reason, external_id, http_status, bytes_sent, convert_from(response_headers, 'UTF8') AS headers
  FROM op_attempt WHERE op_id = 'x1';
-- The same report again, and another object: one changes nothing, one is news.
SELECT state FROM op_report('x1', 1, 200, body => '{"id": "o_1", "ref": "sh_x1"}');
SELECT state, reason FROM op_report('x1', 1, 200, body => '{"id": "o_2", "ref": "sh_x1"}');
SELECT n, kind, verdict FROM op_attempt WHERE op_id = 'x1' ORDER BY n;

-- Surely not sent: pending again, not at once. Refused: failed. Another's object: unknown.
SELECT state FROM op_submit('x2', 'sdk.order', '{"sku": "a"}');
SELECT decision, attempt FROM op_claim('x2');
SELECT state, reason FROM op_report('x2', 1, error => 'connection refused', sent => false);
SELECT decision, state, retry_after_s > 500 AS later FROM op_claim('x2');
SELECT state FROM op_submit('x3', 'sdk.order', '{"sku": "a"}');
SELECT decision FROM op_claim('x3');
SELECT state, reason, next_action FROM op_report('x3', 1, 422, body => '{"error": "no such sku"}');
SELECT decision, state, reason FROM op_claim('x3');
SELECT state FROM op_submit('x4', 'sdk.order', '{"sku": "a"}');
SELECT decision FROM op_claim('x4');
SELECT state, reason FROM op_report('x4', 1, 200, body => '{"id": "o_9", "ref": "sh_y"}');

-- No answer: unknown. It is sent again under the same key, by who claims it.
SELECT state FROM op_submit('x5', 'sdk.order', '{"sku": "a"}');
SELECT decision FROM op_claim('x5');
SELECT state, effect, reason FROM op_report('x5', 1, error => 'socket hang up');
SELECT decision, retry_after_s > 500 AS later FROM op_claim('x5');
UPDATE op_due SET due_at = now() - interval '1 s' WHERE op_id = 'x5';
SELECT decision, attempt, key, state FROM op_claim('x5');
SELECT state, external_id FROM op_report('x5', 2, 200, body => '{"id": "o_5", "ref": "sh_x5"}');
SELECT n, kind, verdict, reason, error FROM op_attempt WHERE op_id = 'x5' ORDER BY n;

-- A lease that runs out is an answer that was lost: the worker finds it. Its late
-- report is recorded, and confirms.
CREATE PROCEDURE pg_temp.until_not(op_id text, state text) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. 200 LOOP
		EXIT WHEN (SELECT s.state FROM op_status(until_not.op_id) AS s) <> until_not.state;
		COMMIT;
		PERFORM pg_sleep(0.05);
	END LOOP;
END
$$;
SELECT state FROM op_submit('x6', 'sdk.order', '{"sku": "a"}');
SELECT decision FROM op_claim('x6', '1 s');
CALL pg_temp.until_not('x6', 'submitted');
SELECT state, effect, reason FROM op_status('x6');
SELECT decision FROM op_claim('x6');
SELECT n, kind, verdict, reason FROM op_attempt WHERE op_id = 'x6';
SELECT state, external_id FROM op_report('x6', 1, 201, body => '{"id": "o_6", "ref": "sh_x6"}');
SELECT n, kind, verdict, reason FROM op_attempt WHERE op_id = 'x6' ORDER BY n;

-- A lease takes the place of margin: while a client that claimed it may still send,
-- nobody can say that it did not happen.
SELECT state FROM op_submit('x9', 'sdk.order', '{"sku": "a"}');
SELECT decision FROM op_claim('x9', '1 h');
SELECT state, reason FROM op_report('x9', 1, 500);
UPDATE op_due SET due_at = now() - interval '1 s' WHERE op_id = 'x9';
SELECT decision FROM op_claim('x9', '1 s');
SELECT state FROM op_report('x9', 2, 500);
SELECT says, at - now() BETWEEN '60 min' AND '62 min' AS after_the_longest_lease FROM op_explain('x9') WHERE topic = 'quiet';
DO $$
DECLARE
	v_message text;
BEGIN
	PERFORM op_resolve('x9', 'failed', note => 'nothing there');
EXCEPTION WHEN SQLSTATE 'OL007' THEN
	GET STACKED DIAGNOSTICS v_message = MESSAGE_TEXT;
	RAISE NOTICE 'refused for more than an hour: %',
		split_part(v_message, ' before ', 2)::timestamptz > now() + interval '1 h';
END $$;

-- The worker never sends for a client, nor does it take turns for what waits.
SELECT state FROM op_submit('x7', 'sdk.order', '{"sku": "a"}');
SELECT pg_sleep(0.3);
SELECT state FROM op_status('x7');
SELECT count(*) FROM op_attempt WHERE op_id = 'x7';

-- Claimed and rolled back: nothing was claimed. Where commits need not be durable, this one is.
BEGIN;
SET LOCAL synchronous_commit = off;
SELECT decision, attempt FROM op_claim('x7');
SHOW synchronous_commit;
ROLLBACK;
SELECT state FROM op_status('x7');

-- A paused provider, a copy of the ledger.
SELECT op_provider_pause('sdk', 'for a moment');
SELECT decision, state FROM op_claim('x7');
SELECT op_provider_resume('sdk');
\set VERBOSITY terse
BEGIN;
INSERT INTO op_control VALUES (4711, 5, 16384, 1, 1, now(), 'somebody');
SELECT op_claim('x7');
ROLLBACK;

-- What cannot be.
SELECT op_claim('x7', '0 s');
SELECT op_claim('x7', '2 h');
SELECT op_claim('nobody');
SELECT op_claim(NULL);
SELECT state FROM op_submit('x8', 'shop.order', '{"sku": "a", "count": 1}');
SELECT op_claim('x8');
SELECT op_report('x8', 1, 200);
SELECT decision FROM op_claim('x7');
SELECT op_report('x7', 2, 200);
SELECT op_report('x7', NULL, 200);
SELECT op_report('x7', 1, 99);
SELECT op_report('x7', 1, 200, sent => false);
SELECT op_report('nobody', 1, 200);
SELECT state FROM op_cancel('x8');
SELECT state FROM op_report('x7', 1, 400);
