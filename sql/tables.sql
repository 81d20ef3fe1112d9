-- Each field is written to its own column and read from it, wherever the column stands.
-- Each value says its name, or is a number or a day that no other field has.
SET timezone = 'UTC';
-- As the extension has them: what C wrote, read by SQL.
BEGIN;
SELECT _op_fields_write();
SELECT op_id, j.key, j.value FROM op_operation AS o, jsonb_each_text(to_jsonb(o) - 'op_id' - 'created_at' - 'args_hash') AS j
 WHERE o.op_id = 'fields-1' ORDER BY j.key;
SELECT encode(args_hash, 'hex') AS args_hash, created_at > now() - interval '1 h' AS created FROM op_operation WHERE op_id = 'fields-1';
SELECT op_id, tainted, contradiction, adopted, generation, external_id, failed_ids, first_sent_at, last_sent_at, lease_until, settled_at, place
  FROM op_operation WHERE op_id ~ '^fields-[234]' ORDER BY op_id;
SELECT j.key, j.value FROM op_request AS r, jsonb_each_text(to_jsonb(r) || jsonb_build_object('body', convert_from(body, 'UTF8'))) AS j
 WHERE r.op_id = 'fields-3' ORDER BY r.generation, j.key;
SELECT op_id, provider, step, due_at, epoch FROM op_due WHERE op_id ~ '^fields' ORDER BY op_id;
SELECT j.key, j.value FROM op_attempt AS a, jsonb_each_text(to_jsonb(a) || jsonb_build_object(
           'response_headers', convert_from(response_headers, 'UTF8'), 'response_body', convert_from(response_body, 'UTF8'))) AS j
 WHERE a.op_id = 'fields-1' ORDER BY j.key;
SELECT op_id, id > 0 AS numbered, at > now() - interval '1 h' AS at, actor, event, note FROM op_event WHERE op_id ~ '^fields';
SELECT op_id, at > now() - interval '1 h' AS at FROM op_nudge WHERE op_id ~ '^fields';
ROLLBACK;

-- The other way round.
CREATE FUNCTION pg_temp.write() RETURNS void LANGUAGE sql AS $$
INSERT INTO op_operation (op_id, action, provider, state, tainted, sealed, contradiction, adopted, generation, attempts, tries, trying_since,
                          first_sent_at, last_sent_at, lease_until, external_id, failed_ids, reason, args_hash, run_id, lane, undoes,
                          submitted_by, created_at, settled_at, place)
VALUES ('fields-5', 'action', 'provider', 'unknown', true, 'evidence', false, false, 2, 51, 52, '2001-02-01',
        '2001-02-02', '2001-02-03', '2001-02-04', 'external_id', '{failed_ids 1,failed_ids 2}', 'reason', 'args_hash', 'run_id', 'lane', 'undoes',
        'submitted_by', '2001-02-05', '2001-02-06', 58),
       ('fields-6', 'action', 'provider', 'failed', false, NULL, true, false, 2, 51, 52, NULL,
        NULL, NULL, NULL, NULL, NULL, NULL, 'args_hash', NULL, NULL, NULL, 'submitted_by', '2001-02-05', NULL, NULL),
       ('fields-7', 'action', 'provider', 'pending', false, NULL, false, true, 2, 51, 52, NULL,
        NULL, NULL, NULL, NULL, NULL, NULL, 'args_hash', NULL, NULL, NULL, 'submitted_by', '2001-02-05', NULL, NULL);
INSERT INTO op_request (op_id, generation, args, key, method, url, headers, body, step, tool_call_id, dedupe_key, traceparent, not_before, not_after, cost,
                        base_url, namespace)
SELECT o.op_id, 2, '"args"', 'key', 'method', 'url', '{headers 1,headers 2}', 'body', 'step', 'tool_call_id', 'dedupe_key', 'traceparent',
       '2001-02-07', '2001-02-08', 54, 'base_url', 'namespace' FROM op_operation AS o WHERE o.op_id ~ '^fields-[567]';
INSERT INTO op_due (op_id, provider, step, due_at, epoch)
SELECT o.op_id, 'provider of it', 'lookup', '2001-02-09', 55 FROM op_operation AS o WHERE o.op_id ~ '^fields-[567]';
INSERT INTO op_attempt (op_id, n, kind, generation, started_at, finished_at, verdict, reason, external_id, request_id)
VALUES ('fields-5', 38, 'lookup', 56, '2001-02-10', '2001-02-11', 'verdict', 'reason', 'another', 'another'),
       ('fields-5', -57, 'webhook', 2, '2001-02-12', '2001-02-13', 'verdict', 'reason', 'external_id', 'request_id');
INSERT INTO op_event (op_id, actor, event, note) VALUES ('fields-5', 'actor', 'event', 'note'), ('fields-5', 'actor', 'another', 'another');
$$;
BEGIN;
SELECT pg_temp.write();
SELECT * FROM _op_fields_read('fields-5');
SELECT op_id, r.* FROM unnest('{fields-6,fields-7}'::text[]) AS op_id, _op_fields_read(op_id) AS r
 WHERE r.field IN ('operation.tainted', 'operation.contradiction', 'operation.adopted');
ROLLBACK;

-- Columns in another order, with dropped ones and the user's own among them: what a
-- dump, an upgrade and ALTER TABLE make of a table. All that was seen above is seen again.
CREATE FUNCTION pg_temp.turn_round(name text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	v_before  text := name || '_before';
	v_columns text;
	v_index   record;
BEGIN
	EXECUTE format('ALTER TABLE %I RENAME TO %I', name, v_before);
	SELECT string_agg(format('%I %s%s%s%s, mine_%s text DEFAULT %L, gone_%s text DEFAULT %L', a.attname, format_type(a.atttypid, a.atttypmod),
	                         CASE WHEN l.collname = 'C' THEN ' COLLATE "C"' END, CASE WHEN a.attnotnull THEN ' NOT NULL' END,
	                         CASE WHEN a.attidentity <> '' THEN ' GENERATED ALWAYS AS IDENTITY'
	                              ELSE ' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid) END,
	                         a.attnum, 'mine ' || a.attnum, a.attnum, 'gone'), ', ' ORDER BY a.attnum DESC)
	  INTO v_columns
	  FROM pg_attribute AS a
	  LEFT JOIN pg_collation AS l ON l.oid = a.attcollation
	  LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
	 WHERE a.attrelid = v_before::regclass AND a.attnum > 0 AND NOT a.attisdropped;
	EXECUTE format('CREATE TABLE %I (gone_0 integer, %s)', name, v_columns);
	FOR v_index IN SELECT a.attname FROM pg_attribute AS a WHERE a.attrelid = name::regclass AND a.attname ~ '^gone' AND NOT a.attisdropped LOOP
		EXECUTE format('ALTER TABLE %I DROP COLUMN %I', name, v_index.attname);
	END LOOP;
	FOR v_index IN SELECT i.indexrelid::regclass::text AS name, i.indisprimary AS is_primary, pg_get_indexdef(i.indexrelid) AS def
	                 FROM pg_index AS i WHERE i.indrelid = v_before::regclass LOOP
		EXECUTE format('ALTER INDEX %s RENAME TO %I', v_index.name, v_index.name || '_before');
		EXECUTE replace(v_index.def, '_before ', ' ');
		IF v_index.is_primary THEN
			EXECUTE format('ALTER TABLE %I ADD PRIMARY KEY USING INDEX %s', name, v_index.name);
		END IF;
	END LOOP;
END
$$;
CREATE FUNCTION pg_temp.seen() RETURNS TABLE (what text, seen text) LANGUAGE plpgsql AS $$
DECLARE
	v_table text;
BEGIN
	FOREACH v_table IN ARRAY '{op_operation,op_request,op_due,op_attempt,op_event,op_nudge}'::text[] LOOP
		RETURN QUERY EXECUTE format(
			'SELECT %L || '' '' || (to_jsonb(t) ->> ''op_id''), string_agg(j.key || ''='' || j.value, '', '' ORDER BY j.key)'
			'  FROM %I AS t, jsonb_each(to_jsonb(t)) AS j'
			' WHERE t.op_id ~ ''^fields'' AND j.key NOT IN (''created_at'', ''at'', ''id'') AND j.key !~ ''^mine'' GROUP BY t', v_table, v_table);
	END LOOP;
	RETURN QUERY SELECT 'read ' || f.field, f.value FROM _op_fields_read('fields-5') AS f;
END
$$;
BEGIN;
SAVEPOINT usual;
SELECT _op_fields_write(), pg_temp.write() \g /dev/null
SELECT count(*) AS rows, md5(string_agg(what || seen, E'\n' ORDER BY what, seen)) AS usual FROM pg_temp.seen() \gset
ROLLBACK TO usual;
SELECT pg_temp.turn_round(t) FROM unnest('{op_operation,op_request,op_due,op_attempt,op_event,op_nudge}'::text[]) AS t \g /dev/null
SELECT string_agg(a.attname, ' ' ORDER BY a.attnum) FROM pg_attribute AS a WHERE a.attrelid = 'op_due'::regclass AND a.attnum > 0 AND NOT a.attisdropped;
SELECT _op_fields_write(), pg_temp.write() \g /dev/null
SELECT count(*) = :rows AS all_rows, md5(string_agg(what || seen, E'\n' ORDER BY what, seen)) = :'usual' AS the_same FROM pg_temp.seen();
SELECT op_id, mine_1, mine_25 FROM op_operation WHERE op_id = 'fields-1';
-- And it works.
SELECT state FROM op_submit('turned', 'shop.order', '{"sku": "a", "count": 1}');
SELECT state, is_new FROM op_submit('turned', 'shop.order', '{"sku": "a", "count": 1}');
SELECT state FROM op_cancel('turned', 'so that it is written');
SELECT op_id, state, reason, mine_1 FROM op_operation WHERE op_id = 'turned';
SELECT event, note FROM op_event WHERE op_id = 'turned';
ROLLBACK;
-- An index that finds other rows is not used.
BEGIN;
DROP INDEX op_event_op_id;
CREATE INDEX op_event_op_id ON op_event (event);
\set VERBOSITY terse
SELECT value FROM _op_fields_read('nested-1');
ROLLBACK;
\set VERBOSITY default
-- A column that is another one by the time it is looked for.
BEGIN;
SELECT (op_submit('tables-1', 'shop.order', '{"sku": "a", "count": 1}')).is_new;
ALTER TABLE op_operation ADD COLUMN lane_again text;
UPDATE op_operation SET lane_again = lane;
ALTER TABLE op_operation DROP COLUMN lane;
ALTER TABLE op_operation RENAME COLUMN lane_again TO lane;
SELECT (op_submit('tables-2', 'shop.order', '{"sku": "a", "count": 1}')).is_new;
SELECT (op_cancel('tables-1')).state;
ALTER TABLE op_operation DROP COLUMN lane;
SAVEPOINT without;
SELECT op_submit('tables-3', 'shop.order', '{"sku": "a", "count": 1}');
ROLLBACK TO without;
UPDATE op_operation SET reason = 'by hand' WHERE op_id = 'tables-1';
ROLLBACK;

-- Triggers for each statement, and rules, see nothing of what op_ledger writes; and
-- op_health() says so. Those that have something to see are not named.
BEGIN;
CREATE TABLE pg_temp.seen_by (what text);
CREATE FUNCTION pg_temp.note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO pg_temp.seen_by VALUES (format('%s on %s', TG_OP, TG_TABLE_NAME));
	RETURN NULL;
END $$;
DO $$
DECLARE
	v_table text;
BEGIN
	FOREACH v_table IN ARRAY '{op_operation,op_request,op_due,op_attempt,op_event,op_nudge}'::text[] LOOP
		EXECUTE format('CREATE TRIGGER every AFTER INSERT OR UPDATE OR DELETE ON %I FOR EACH STATEMENT EXECUTE FUNCTION pg_temp.note()', v_table);
		EXECUTE format('CREATE TRIGGER gone AFTER DELETE OR TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION pg_temp.note()', v_table);
		EXECUTE format('CREATE TRIGGER each_row AFTER UPDATE OF op_id ON %I FOR EACH ROW EXECUTE FUNCTION pg_temp.note()', v_table);
	END LOOP;
END
$$;
CREATE RULE ruled AS ON UPDATE TO op_due DO ALSO NOTIFY due;
SELECT status, detail FROM op_health() WHERE check_name = 'trigger';
SELECT hint FROM op_health() WHERE check_name = 'trigger' LIMIT 1;
SELECT _op_fields_write();
SELECT state FROM op_submit('tables-4', 'shop.order', '{"sku": "a", "count": 1}');
SELECT state FROM op_cancel('tables-4', 'seen by nobody');
SELECT * FROM pg_temp.seen_by;
DELETE FROM op_due WHERE op_id = 'fields-1';
SELECT * FROM pg_temp.seen_by;
ROLLBACK;
SELECT count(*) FROM op_health() WHERE check_name = 'trigger';
RESET timezone;
