-- A copy of the ledger does not send; op_adopt() makes it the home, and looks up
-- whatever has not ended before anything is sent. Last of all tests here: it
-- touches every operation of this database.
SELECT is_new FROM op_submit('a-held', 'shop.order', '{"sku": "a", "count": 1}');
SELECT is_new FROM op_submit('a-pending', 'shop.order', '{"sku": "a", "count": 1}');
SELECT is_new FROM op_submit('a-submitted', 'shop.order', '{"sku": "a", "count": 1}');
SELECT is_new FROM op_submit('a-unknown', 'shop.order', '{"sku": "a", "count": 1}');
SELECT is_new FROM op_submit('a-accepted', 'shop.order', '{"sku": "a", "count": 1}');
SELECT is_new FROM op_submit('a-review', 'shop.order', '{"sku": "a", "count": 1}');
SELECT is_new FROM op_submit('a-confirmed', 'shop.order', '{"sku": "a", "count": 1}');
SELECT is_new FROM op_submit('a-failed', 'shop.order', '{"sku": "a", "count": 1}');
SELECT is_new FROM op_submit('a-cancelled', 'shop.order', '{"sku": "a", "count": 1}');
ALTER TABLE op_operation DISABLE TRIGGER op_operation_guard;
UPDATE op_operation SET state = substr(op_id, 3) WHERE op_id LIKE 'a-%';
UPDATE op_operation SET attempts = 1, tries = 1, trying_since = '2026-01-01', first_sent_at = '2026-01-01',
       last_sent_at = '2026-01-01', tainted = state IN ('unknown', 'accepted', 'review')
 WHERE op_id LIKE 'a-%' AND state NOT IN ('held', 'pending', 'cancelled');
ALTER TABLE op_operation ENABLE TRIGGER op_operation_guard;
DELETE FROM op_due WHERE op_id LIKE 'a-%';

-- At home there is nothing to adopt.
SELECT * FROM op_adopt('by mistake');

-- A dump brought this row along.
INSERT INTO op_control VALUES (4711, 5, 16384, 1, 1, '2026-01-01', 'somebody');
SELECT status, regexp_replace(detail, 'since .*', 'since …') AS detail, hint FROM op_health() WHERE check_name = 'home';

BEGIN; -- the worker does not see it yet
CREATE TEMP TABLE adopted AS SELECT * FROM op_adopt('the old server burnt down');
SELECT follows, operations > 0 AS some FROM adopted;
SELECT o.op_id, o.state, o.tainted, o.adopted, o.reason, o.last_sent_at > now() - interval '1 min' AS now_is_the_last_claim,
       o.first_sent_at IS NOT NULL AS window_is_known, d.step, d.epoch
  FROM op_operation AS o LEFT JOIN op_due AS d USING (op_id)
 WHERE o.op_id LIKE 'a-%' ORDER BY 1;
SELECT count(*) AS agenda_not_as_counted
  FROM (SELECT sum(operations) AS n FROM adopted WHERE follows IN ('lookup', 'send')) AS c
 WHERE c.n > (SELECT count(*) FROM op_due);
SELECT op_id, event, actor = current_user AS by_me, note FROM op_event
 WHERE event = 'adopt' AND (op_id IS NULL OR op_id IN ('a-pending', 'a-failed')) ORDER BY op_id;
SELECT system_identifier = 4711 AS foreign, retired, adopted_by = current_user AS by_me FROM op_control ORDER BY 1;
COMMIT;
SELECT status, detail, hint FROM op_health() WHERE check_name = 'home';

-- The same place: another time line (a promotion), other files (a copy).
UPDATE op_control SET timeline = 0 WHERE NOT retired;
SELECT detail FROM op_health() WHERE check_name = 'home';
UPDATE op_control SET timeline = 1, control_inode = 1 WHERE NOT retired;
SELECT detail FROM op_health() WHERE check_name = 'home';
UPDATE op_control SET retired = true;
SELECT detail FROM op_health() WHERE check_name = 'home';
SELECT follows, operations > 0 AS some FROM op_adopt('again');
SELECT follows, operations > 0 AS some FROM op_adopt('a snapshot was restored', force => true);
SELECT status FROM op_health() WHERE check_name = 'home';

BEGIN READ ONLY;
SELECT * FROM op_adopt('nothing can be written');
ROLLBACK;
