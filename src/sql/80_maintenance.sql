-- What makes room. An operation's row stays for ever; its bulk need not.

-- Operations that still have requests or attempts, in the order of their ids, from
-- one on. By index, whatever the statistics say: some of both tables, as far as
-- both were read.
CREATE FUNCTION _op_bulk_after(after text, most integer) RETURNS text[]
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, @extschema@, pg_temp
	SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
	v_requests text[] := ARRAY(SELECT r.op_id FROM op_request AS r WHERE r.op_id > after ORDER BY r.op_id LIMIT most);
	v_attempts text[] := ARRAY(SELECT a.op_id FROM op_attempt AS a WHERE a.op_id > after ORDER BY a.op_id LIMIT most);
	v_upto     text COLLATE "C" := least(v_requests[most] COLLATE "C", v_attempts[most] COLLATE "C");
BEGIN
	RETURN ARRAY(SELECT DISTINCT u.op_id COLLATE "C" FROM unnest(v_requests || v_attempts) AS u (op_id)
	              WHERE v_upto IS NULL OR u.op_id COLLATE "C" <= v_upto ORDER BY 1);
END
$$;
COMMENT ON FUNCTION _op_bulk_after(text, integer) IS 'Ids of operations that have requests or attempts, in their order, from one on.';

-- Those among them that ended before a moment, and have something from before it;
-- locked, so that nobody reissues them meanwhile. What somebody holds is left for
-- the next time.
CREATE FUNCTION _op_purgeable(ended_before timestamptz, after text, most integer, OUT op_ids text[], OUT upto text)
	LANGUAGE plpgsql SET search_path = pg_catalog, @extschema@, pg_temp
	SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
	v_some text[];
BEGIN
	op_ids := '{}';
	upto := after;
	LOOP
		v_some := _op_bulk_after(upto, most);
		upto := v_some[cardinality(v_some)];
		EXIT WHEN upto IS NULL;
		op_ids := op_ids || ARRAY(
			SELECT o.op_id
			  FROM unnest(v_some) AS u (op_id)
			 CROSS JOIN LATERAL (SELECT q.op_id FROM op_operation AS q
			                      WHERE q.op_id = u.op_id AND _op_is_past(q, ended_before)
			                        FOR NO KEY UPDATE SKIP LOCKED) AS o
			 LIMIT most - cardinality(op_ids));
		IF cardinality(op_ids) = most THEN
			upto := op_ids[most];
			EXIT;
		END IF;
	END LOOP;
END
$$;
COMMENT ON FUNCTION _op_purgeable(timestamptz, text, integer) IS
	'Locks and lists operations that ended before a moment and have requests, or attempts from before it, left, from an id on. upto: where to go on; NULL: that was all.';

-- What is exported at a moment is what is purged at it: one condition for both.
CREATE FUNCTION _op_is_past(operation op_operation, moment timestamptz) RETURNS boolean
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, @extschema@, pg_temp AS $$
BEGIN
	RETURN operation.state IN ('confirmed', 'failed', 'cancelled') AND operation.settled_at < moment
	       AND (EXISTS (SELECT FROM op_request AS r WHERE r.op_id = operation.op_id)
	            OR EXISTS (SELECT FROM op_attempt AS a WHERE a.op_id = operation.op_id AND a.finished_at < moment));
END
$$;
COMMENT ON FUNCTION _op_is_past(op_operation, timestamptz) IS
	'Did an operation end before a moment, and is there a request, or an attempt from before it, that could be purged?';

-- A moment before which nothing can end any more. A transaction that is open may
-- have ended an operation at any time since it began, and shows it when it commits;
-- an answer that came while somebody held its row is stored after that. The minute
-- is for the turn of the worker between the two.
CREATE FUNCTION _op_check_moment(settled_before timestamptz, called text) RETURNS void
	LANGUAGE plpgsql SET search_path = pg_catalog, @extschema@, pg_temp AS $$
DECLARE
	v_open   timestamptz;
	v_latest timestamptz;
BEGIN
	v_open := least(
		(SELECT min(a.xact_start) FROM pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid
		  WHERE l.relation IN ('op_operation'::regclass, 'op_attempt'::regclass) AND l.mode = 'RowExclusiveLock'
		    AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
		    AND l.pid <> pg_backend_pid()),
		(SELECT min(x.prepared) FROM pg_prepared_xacts AS x WHERE x.database = current_database()));
	v_latest := least(v_open, clock_timestamp()) - interval '1 min';
	IF settled_before IS NULL OR settled_before > v_latest THEN
		RAISE EXCEPTION USING ERRCODE = 'OL004',
			MESSAGE = format('settled_before of %s is %s', called, coalesce(settled_before::text, 'NULL')),
			DETAIL = CASE WHEN v_open IS NOT NULL AND v_open < clock_timestamp() - interval '1 min'
			              THEN format('A transaction that began at %s can still end operations before that.', v_open)
			              ELSE 'Operations can still end before that.' END,
			HINT = format('Take a moment that is not after %s.', v_latest);
	END IF;
END
$$;
COMMENT ON FUNCTION _op_check_moment(timestamptz, text) IS 'Refuses a moment before which operations can still end. called: for the message.';

CREATE FUNCTION op_export(settled_before timestamptz) RETURNS SETOF text
	LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, @extschema@, pg_temp AS $$
BEGIN
	IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
		RAISE EXCEPTION USING ERRCODE = 'active_sql_transaction',
			MESSAGE = format('op_export() in a transaction that is %s', upper(current_setting('transaction_isolation'))),
			DETAIL = 'Its snapshot may be older than what ended before the moment.',
			HINT = 'Call it in READ COMMITTED.';
	END IF;
	PERFORM _op_check_moment(settled_before, 'op_export()');
	RETURN QUERY SELECT op_evidence(o.op_id)::text FROM op_operation AS o
	              WHERE o.state IN ('confirmed', 'failed', 'cancelled') AND _op_is_past(o, op_export.settled_before)
	              ORDER BY o.op_id;
END
$$;
COMMENT ON FUNCTION op_export(timestamptz) IS
	'What op_purge(settled_before => the same moment) removes, as op_evidence() shows it: one JSON document a row, each a single line, in the order of op ids. What is purged already is not in it. Write it with psql -At, not with COPY in its text format, which doubles backslashes. Errors: OL004 operations can still end before that moment (it is not a minute ago, or a transaction has been open for longer); 25001 in REPEATABLE READ.';

CREATE FUNCTION op_purge(older_than interval DEFAULT NULL, batch integer DEFAULT 1000,
                         settled_before timestamptz DEFAULT NULL) RETURNS integer
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, @extschema@, pg_temp
	SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
	v_before timestamptz := coalesce(settled_before, clock_timestamp() - older_than);
	v_after  text := coalesce(current_setting('op_ledger_purge.after', true), '');
	v_ids    text[];
	v_upto   text;
BEGIN
	IF (older_than IS NULL) = (settled_before IS NULL) THEN
		RAISE EXCEPTION USING ERRCODE = 'OL004',
			MESSAGE = format('op_purge() has %s older_than %s settled_before',
			                 CASE WHEN older_than IS NULL THEN 'neither' ELSE 'both' END,
			                 CASE WHEN older_than IS NULL THEN 'nor' ELSE 'and' END),
			HINT = 'Say how long ago an operation must have ended, such as ''90 days'', or before which moment: the one of op_export().';
	END IF;
	IF v_before > clock_timestamp() THEN
		RAISE EXCEPTION USING ERRCODE = 'OL004',
			MESSAGE = CASE WHEN older_than IS NULL THEN format('settled_before of op_purge() is %s', settled_before)
			               ELSE format('older_than of op_purge() is %s', older_than) END,
			HINT = 'Only what ended in the past is purged.';
	END IF;
	IF settled_before IS NOT NULL THEN
		PERFORM _op_check_moment(settled_before, 'op_purge()');
	END IF;
	IF batch IS NULL OR batch < 1 THEN
		RAISE EXCEPTION USING ERRCODE = 'OL004',
			MESSAGE = format('batch of op_purge() is %s', coalesce(batch::text, 'NULL')),
			HINT = 'Say how many operations one call may purge: 1 or more.';
	END IF;
	SELECT p.op_ids, p.upto INTO v_ids, v_upto FROM _op_purgeable(v_before, v_after, batch) AS p;
	IF cardinality(v_ids) = 0 AND v_after <> '' THEN
		SELECT p.op_ids, p.upto INTO v_ids, v_upto FROM _op_purgeable(v_before, '', batch) AS p;
	END IF;
	-- A session that calls again goes on where it was; it need not walk twice past
	-- what stays.
	PERFORM set_config('op_ledger_purge.after', coalesce(v_upto, ''), false);
	-- An attempt from after the moment was in no export of it; it waits for its own time.
	DELETE FROM op_attempt AS a WHERE a.op_id = ANY (v_ids) AND a.finished_at < v_before;
	DELETE FROM op_request AS r WHERE r.op_id = ANY (v_ids);
	IF cardinality(v_ids) > 0 THEN
		INSERT INTO op_event (actor, event, note)
		VALUES (_op_actor(), 'purge', format('%s operations that ended before %s', cardinality(v_ids), v_before));
	END IF;
	RETURN cardinality(v_ids);
END
$$;
COMMENT ON FUNCTION op_purge(interval, integer, timestamptz) IS
	'Removes the requests, and the attempts from before then, of operations that ended longer ago than older_than, or before the moment settled_before (one of the two): at most batch operations a call, which is one transaction; returns how many, so call it until it returns 0 (\watch, pg_cron). What people did (op_event) and the operation''s row stay: its id still answers, and is never executed again. Export before with op_export(), and purge with the same moment. Error OL004: older_than or batch makes no sense, or operations can still end before settled_before.';
