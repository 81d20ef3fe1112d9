-- What makes room. An operation's row stays for ever; its bulk need not.

-- The next operations after v_after, in the order of their ids, that ended before
-- a moment and still have bulk. Locked, so that nobody reissues them meanwhile;
-- what somebody holds is left for the next time.
CREATE FUNCTION _op_purgeable(ended_before timestamptz, after text, most integer) RETURNS text[]
	LANGUAGE plpgsql SET search_path = pg_catalog, @extschema@, pg_temp AS $$
DECLARE
	v_ids text[];
BEGIN
	SELECT array_agg(p.op_id) INTO v_ids
	  FROM (SELECT o.op_id
	          FROM (SELECT DISTINCT u.op_id
	                  FROM (SELECT r.op_id FROM op_request AS r WHERE r.op_id > after
	                        UNION ALL
	                        SELECT a.op_id FROM op_attempt AS a WHERE a.op_id > after) AS u
	                 ORDER BY u.op_id) AS b
	         CROSS JOIN LATERAL (SELECT q.op_id FROM op_operation AS q
	                              WHERE q.op_id = b.op_id AND q.state IN ('confirmed', 'failed', 'cancelled')
	                                AND q.settled_at < ended_before
	                                FOR NO KEY UPDATE SKIP LOCKED) AS o
	         LIMIT most) AS p;
	RETURN coalesce(v_ids, '{}');
END
$$;
COMMENT ON FUNCTION _op_purgeable(timestamptz, text, integer) IS
	'Locks and lists operations that ended before a moment and have requests or attempts left, from an id on.';

CREATE FUNCTION op_purge(older_than interval, batch integer DEFAULT 1000) RETURNS integer
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, @extschema@, pg_temp AS $$
DECLARE
	v_before timestamptz := clock_timestamp() - older_than;
	v_after  text := coalesce(current_setting('op_ledger_purge.after', true), '');
	v_ids    text[];
BEGIN
	IF older_than IS NULL OR v_before > clock_timestamp() THEN
		RAISE EXCEPTION USING ERRCODE = 'OL004',
			MESSAGE = format('older_than of op_purge() is %s', coalesce(older_than::text, 'NULL')),
			HINT = 'Say how long ago an operation must have ended, such as ''90 days''.';
	END IF;
	IF batch IS NULL OR batch < 1 THEN
		RAISE EXCEPTION USING ERRCODE = 'OL004',
			MESSAGE = format('batch of op_purge() is %s', coalesce(batch::text, 'NULL')),
			HINT = 'Say how many operations one call may purge: 1 or more.';
	END IF;
	v_ids := _op_purgeable(v_before, v_after, batch);
	IF cardinality(v_ids) = 0 AND v_after <> '' THEN
		v_ids := _op_purgeable(v_before, '', batch);
	END IF;
	-- A session that calls again goes on where it was; it need not walk twice past
	-- what stays.
	PERFORM set_config('op_ledger_purge.after', coalesce(v_ids[cardinality(v_ids)], ''), false);
	DELETE FROM op_attempt AS a WHERE a.op_id = ANY (v_ids);
	DELETE FROM op_request AS r WHERE r.op_id = ANY (v_ids);
	IF cardinality(v_ids) > 0 THEN
		INSERT INTO op_event (actor, event, note)
		VALUES (_op_actor(), 'purge', format('%s operations that ended before %s', cardinality(v_ids), v_before));
	END IF;
	RETURN cardinality(v_ids);
END
$$;
COMMENT ON FUNCTION op_purge(interval, integer) IS
	'Removes the requests and attempts of operations that ended longer ago than older_than: at most batch operations a call, which is one transaction; returns how many, so call it until it returns 0 (\watch, pg_cron). What people did (op_event) and the operation''s row stay: its id still answers, and is never executed again. Export with op_evidence() before. Error OL004: older_than or batch makes no sense.';
