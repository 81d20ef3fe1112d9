-- The newest sight of an object says how it is; what failed once has failed.
CREATE FUNCTION _op_objects(op_id text) RETURNS TABLE (id text, state text, generation integer, seen text)
	LANGUAGE sql STABLE SET search_path = pg_catalog, @extschema@, pg_temp AS $$
	WITH sight AS (
		SELECT a.external_id AS id, a.n, a.kind, a.finished_at, NULL::integer AS generation,
		       CASE WHEN a.verdict IN ('confirmed', 'found') THEN 'done'
		            WHEN a.verdict IN ('accepted', 'found_pending') THEN 'pending'
		            WHEN a.verdict = 'found_failed' THEN 'failed' ELSE 'seen' END AS state
		  FROM op_attempt AS a WHERE a.op_id = _op_objects.op_id AND a.external_id IS NOT NULL AND a.objects IS NULL
		UNION ALL
		SELECT o ->> 'id', a.n, a.kind, a.finished_at, (o ->> 'generation')::integer, o ->> 'state'
		  FROM op_attempt AS a, jsonb_array_elements(a.objects) AS o WHERE a.op_id = _op_objects.op_id),
	seen AS (
		SELECT s.id, (array_agg(s.state ORDER BY s.finished_at DESC, s.n DESC))[1] AS state, max(s.generation) AS generation,
		       string_agg(s.kind || ' ' || s.n, ', ' ORDER BY s.finished_at, s.n) AS seen, min(s.finished_at) AS first
		  FROM sight AS s GROUP BY s.id
		UNION ALL
		SELECT o.external_id, CASE o.state WHEN 'confirmed' THEN 'done' ELSE 'seen' END, NULL, NULL, NULL
		  FROM op_operation AS o
		 WHERE o.op_id = _op_objects.op_id AND o.external_id IS NOT NULL
		   AND NOT EXISTS (SELECT FROM sight AS s WHERE s.id = o.external_id))
	SELECT s.id, CASE WHEN s.id = ANY (o.failed_ids) THEN 'failed' ELSE s.state END, s.generation, s.seen
	  FROM seen AS s JOIN op_operation AS o ON o.op_id = _op_objects.op_id
	 ORDER BY s.first, s.id
$$;
COMMENT ON FUNCTION _op_objects(text) IS
	'The objects of an operation at the provider: state (done, pending, failed, seen) and the exchanges that showed each, oldest first. generation: where the marker was read of several.';

CREATE FUNCTION op_timeline(op_id text)
	RETURNS TABLE (at timestamptz, event text, n integer, verdict text, detail text)
	LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, @extschema@, pg_temp AS $$
#variable_conflict use_column
DECLARE
	v_op op_operation;
BEGIN
	SELECT * INTO v_op FROM op_operation AS o WHERE o.op_id = op_timeline.op_id;
	IF NOT FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'OL001',
			MESSAGE = format('operation "%s" does not exist', op_timeline.op_id),
			HINT = 'It was never submitted, or its transaction has not been committed.';
	END IF;
	RETURN QUERY
	SELECT t.at, t.event, t.n, t.verdict, t.detail
	  FROM (SELECT v_op.created_at, 0, 'submitted by ' || v_op.submitted_by, NULL::integer, NULL::text, v_op.action
	        UNION ALL
	        SELECT CASE WHEN a.kind IN ('send', 'lookup') THEN a.started_at ELSE a.finished_at END, 1, a.kind, a.n, a.verdict,
	               concat_ws(', ', CASE WHEN a.n < 0 AND a.kind <> 'webhook' THEN 'came late' END, a.reason, 'http ' || a.http_status,
	                         coalesce((SELECT string_agg(concat(x ->> 'id', ' ', x ->> 'state'), ', ') FROM jsonb_array_elements(a.objects) AS x), a.external_id),
	                         CASE WHEN a.kind = 'send' THEN a.bytes_sent || ' bytes sent' END,
	                         (extract(epoch FROM a.finished_at - a.started_at) * 1000)::numeric(12,1) || ' ms')
	          FROM op_attempt AS a WHERE a.op_id = v_op.op_id
	        UNION ALL
	        SELECT e.at, 2, e.event || ' by ' || e.actor, NULL, NULL, e.note
	          FROM op_event AS e WHERE e.op_id = v_op.op_id
	        UNION ALL
	        SELECT v_op.settled_at, 3, v_op.state, NULL, NULL, concat_ws(', ', v_op.external_id, v_op.reason)
	         WHERE v_op.settled_at IS NOT NULL
	        UNION ALL
	        SELECT d.due_at, 4, 'next: ' || CASE WHEN v_op.state = 'submitted' THEN 'answer' ELSE d.step END,
	               NULL, NULL, concat_ws(', ', 'state ' || v_op.state,
	                                     CASE WHEN p.paused AND d.step = 'send' THEN 'not before op_provider_resume()' END)
	          FROM op_due AS d LEFT JOIN op_provider AS p ON p.name = d.provider WHERE d.op_id = v_op.op_id) AS t (at, rank, event, n, verdict, detail)
	 ORDER BY t.rank = 4, t.at, t.rank, t.n;
END
$$;
COMMENT ON FUNCTION op_timeline(text) IS
	'What happened to an operation, in order, and what comes next. Error OL001: no such operation.';
