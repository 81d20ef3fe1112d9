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

-- Those among them that ended before a moment, locked, so that nobody reissues
-- them meanwhile; what somebody holds is left for the next time.
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
			                      WHERE q.op_id = u.op_id AND q.state IN ('confirmed', 'failed', 'cancelled')
			                        AND q.settled_at < ended_before
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
	'Locks and lists operations that ended before a moment and have requests or attempts left, from an id on. upto: where to go on; NULL: that was all.';

CREATE FUNCTION op_purge(older_than interval, batch integer DEFAULT 1000) RETURNS integer
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, @extschema@, pg_temp
	SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
	v_before timestamptz := clock_timestamp() - older_than;
	v_after  text := coalesce(current_setting('op_ledger_purge.after', true), '');
	v_ids    text[];
	v_upto   text;
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
	SELECT p.op_ids, p.upto INTO v_ids, v_upto FROM _op_purgeable(v_before, v_after, batch) AS p;
	IF cardinality(v_ids) = 0 AND v_after <> '' THEN
		SELECT p.op_ids, p.upto INTO v_ids, v_upto FROM _op_purgeable(v_before, '', batch) AS p;
	END IF;
	-- A session that calls again goes on where it was; it need not walk twice past
	-- what stays.
	PERFORM set_config('op_ledger_purge.after', coalesce(v_upto, ''), false);
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
