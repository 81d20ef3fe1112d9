CREATE FUNCTION op_health()
	RETURNS TABLE (check_name text, status text, detail text, hint text)
	LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, @extschema@, pg_temp AS $$
#variable_conflict use_column
DECLARE
	v_worker  record;
	v_fault   text := _op_home_fault();
	v_enabled boolean := coalesce(current_setting('op_ledger.enabled', true), 'off')::boolean;
	v_now     timestamptz := clock_timestamp();
	v_due     record;
	v_home    record;
	v_count   record;
BEGIN
	SELECT bool_or(w.preloaded) AS preloaded,
	       CASE WHEN bool_or(w.state = 'running') THEN 'running'
	            WHEN bool_or(w.state = 'starting') THEN 'starting' ELSE 'absent' END AS state,
	       string_agg(w.pid::text, ', ' ORDER BY w.number) AS pid, min(w.started_at) AS started_at,
	       min(coalesce(w.turn_at, w.started_at)) AS turn_at, sum(w.in_flight) AS in_flight,
	       min(w.held_since) AS held_since, sum(w.failed_turns) AS failed_turns, max(w.failed_at) AS failed_at,
	       (array_agg(w.failure ORDER BY w.failed_at DESC NULLS LAST))[1] AS failure
	  INTO v_worker FROM _op_worker() AS w;

	check_name := 'worker'; hint := NULL;
	IF NOT v_worker.preloaded THEN
		status := 'critical'; detail := 'op_ledger is not preloaded: nothing is sent';
		hint := 'Add op_ledger to shared_preload_libraries and restart the server.';
	ELSIF pg_is_in_recovery() THEN
		status := 'ok'; detail := 'this is a standby: its primary sends';
	ELSIF NOT v_enabled THEN
		status := 'warning'; detail := 'op_ledger.enabled is off: nothing is sent';
		hint := 'Set op_ledger.enabled = on and reload.';
	ELSIF v_worker.state = 'running' AND coalesce(v_worker.turn_at, v_worker.started_at) < v_now - interval '30 s' THEN
		status := 'critical';
		detail := format('worker %s has not finished a turn since %s', v_worker.pid, coalesce(v_worker.turn_at, v_worker.started_at));
		hint := 'Look at pg_stat_activity for what it waits for; pg_terminate_backend() is safe, it comes back.';
	ELSIF v_worker.state = 'running' THEN
		status := 'ok'; detail := format('worker %s running since %s, %s in flight', v_worker.pid, v_worker.started_at, v_worker.in_flight);
	ELSE
		status := CASE v_worker.state WHEN 'starting' THEN 'warning' ELSE 'critical' END;
		detail := format('worker of this database is %s: nothing is sent', v_worker.state);
		hint := 'See the server log; raise max_worker_processes if it says so, and check op_ledger.databases.';
	END IF;
	RETURN NEXT;

	check_name := 'home';
	status := CASE WHEN v_fault IS NULL THEN 'ok' ELSE 'critical' END;
	detail := coalesce(v_fault, 'this is the ledger''s home');
	hint := CASE WHEN v_fault IS NOT NULL THEN
		'A copy does not send. While the original goes on, leave this one as it is: a record. When the original never sends again: SELECT * FROM op_adopt(''why'').' END;
	IF v_fault IS NOT NULL THEN
		SELECT string_agg(format('database %s of system %s since %s', c.database_oid, c.system_identifier, c.adopted_at), ', ') AS others
		  INTO v_home
		  FROM op_control AS c, _op_home() AS h
		 WHERE NOT c.retired
		   AND (c.system_identifier, c.database_oid, c.extension_oid)
		       IS DISTINCT FROM (h.system_identifier, h.database_oid, h.extension_oid);
		detail := detail || coalesce('; its home is ' || v_home.others, '');
	END IF;
	RETURN NEXT;

	check_name := 'due';
	SELECT count(*) AS n, min(d.due_at) AS oldest INTO v_due
	  FROM op_due AS d
	  JOIN op_provider AS p ON p.name = d.provider
	 WHERE d.due_at <= v_now AND d.epoch IS NULL AND d.step <> 'claim' AND NOT (p.paused AND d.step = 'send');
	status := CASE WHEN v_due.oldest < v_now - interval '5 min' THEN 'warning' ELSE 'ok' END;
	detail := format('%s due%s', v_due.n, ', the oldest since ' || v_due.oldest);
	hint := CASE WHEN status <> 'ok' THEN 'The worker is down, or a provider''s concurrency is too small for what is submitted.' END;
	RETURN NEXT;

	SELECT count(*) AS n, min(d.due_at) AS oldest INTO v_due FROM op_due AS d WHERE d.step = 'claim';
	IF v_due.oldest < v_now - interval '5 min' THEN
		check_name := 'client';
		status := 'warning';
		detail := format('%s wait for a client to claim them, the oldest since %s', v_due.n, v_due.oldest);
		hint := 'The client executor is down, or does not know of them: it calls op_claim() for what it submitted.';
		RETURN NEXT;
	END IF;

	check_name := 'provider';
	FOR v_count IN SELECT p.name, p.paused_at, p.paused_note FROM op_provider AS p WHERE p.paused ORDER BY p.name LOOP
		status := 'critical';
		detail := format('provider "%s" is paused since %s: %s', v_count.name, v_count.paused_at, coalesce(v_count.paused_note, 'no note'));
		hint := format('Repair the cause, then SELECT op_provider_resume(%L).', v_count.name);
		RETURN NEXT;
	END LOOP;

	check_name := 'retrying';
	SELECT count(*) AS n, min(o.trying_since) AS oldest,
	       (array_agg(format('%s: %s', o.provider, o.reason) ORDER BY o.trying_since))[1] AS example INTO v_count
	  FROM op_due AS d JOIN op_operation AS o ON o.op_id = d.op_id
	 WHERE o.state = 'pending' AND o.trying_since IS NOT NULL;
	status := CASE WHEN v_count.oldest < v_now - interval '1 min' THEN 'warning' ELSE 'ok' END;
	detail := format('%s could not be sent yet%s', v_count.n,
	                 format(', the oldest since %s (%s)', v_count.oldest, v_count.example));
	IF v_count.n = 0 THEN
		detail := '0 could not be sent yet';
	END IF;
	hint := CASE WHEN status <> 'ok' THEN 'Is the provider reachable? After retry.patience they end as failed, reason gave_up; a URL is frozen with its request.' END;
	RETURN NEXT;

	check_name := 'orphan';
	FOR v_count IN SELECT d.provider, count(*) AS n FROM op_due AS d
	                WHERE NOT EXISTS (SELECT FROM op_provider AS p WHERE p.name = d.provider)
	                GROUP BY d.provider ORDER BY d.provider LOOP
		status := 'critical';
		detail := format('%s due of provider "%s", which does not exist', v_count.n, v_count.provider);
		hint := 'Add the provider again, under its name, with op_provider_add().';
		RETURN NEXT;
	END LOOP;

	check_name := 'unknown';
	SELECT count(*) AS n, min(o.last_sent_at) AS oldest INTO v_count
	  FROM op_due AS d JOIN op_operation AS o ON o.op_id = d.op_id
	 WHERE o.state = 'unknown';
	status := CASE WHEN v_count.oldest < v_now - interval '1 h' THEN 'warning' ELSE 'ok' END;
	detail := format('%s being looked up%s', v_count.n, ', the oldest sent at ' || v_count.oldest);
	hint := CASE WHEN status <> 'ok' THEN 'See op_timeline() of the oldest: do its lookups fail?' END;
	RETURN NEXT;

	check_name := 'lookup';
	FOR v_count IN
		SELECT d.provider, count(*) AS n, max(a.reason) AS reason, min(o.last_sent_at) AS oldest
		  FROM op_due AS d
		  JOIN op_operation AS o ON o.op_id = d.op_id
		  JOIN op_attempt AS a ON a.op_id = o.op_id AND a.n = o.attempts
		 WHERE d.step = 'lookup' AND a.kind = 'lookup'
		   AND (a.http_status IN (401, 403, 407) OR a.reason = 'secret')
		 GROUP BY d.provider ORDER BY d.provider
	LOOP
		status := 'critical';
		detail := format('lookups of provider "%s" are refused (%s): %s operations, the oldest sent at %s',
		                 v_count.provider, v_count.reason, v_count.n, v_count.oldest);
		hint := 'Repair the credential or its rights; until then nobody finds out what happened.';
		RETURN NEXT;
	END LOOP;

	check_name := 'review';
	SELECT count(*) AS n, min(coalesce(o.last_sent_at, o.created_at)) AS oldest INTO v_count
	  FROM op_operation AS o WHERE o.state = 'review';
	status := CASE WHEN v_count.n > 0 THEN 'warning' ELSE 'ok' END;
	detail := format('%s wait for a person%s', v_count.n, ', the oldest since ' || v_count.oldest);
	hint := CASE WHEN v_count.n > 0 THEN 'SELECT * FROM op_review shows what is known, and suggests what to do.' END;
	RETURN NEXT;

	check_name := 'turns';
	status := CASE WHEN v_worker.failed_at > v_now - interval '5 min' THEN 'warning' ELSE 'ok' END;
	detail := format('%s failed%s', coalesce(v_worker.failed_turns, 0),
	                 format(', the last at %s: %s', v_worker.failed_at, v_worker.failure));
	IF v_worker.failed_at IS NULL THEN
		detail := '0 failed';
	END IF;
	hint := CASE WHEN status <> 'ok' THEN 'The worker goes on by itself; the server log has the whole error.' END;
	RETURN NEXT;

	check_name := 'held';
	status := CASE WHEN v_worker.held_since < v_now - interval '30 s' THEN 'warning' ELSE 'ok' END;
	detail := coalesce('an answer waits since ' || v_worker.held_since || ' for a row that a session holds', 'no answer waits');
	hint := CASE WHEN status <> 'ok' THEN 'End the transaction that holds a row of op_operation: see pg_locks.' END;
	RETURN NEXT;
END
$$;
COMMENT ON FUNCTION op_health() IS
	'What runs, what is due, what is stuck, since when, and what to do. status: ok, warning, critical.';

CREATE VIEW op_review AS
SELECT o.op_id, o.state, CASE o.state WHEN 'held' THEN 'approval' ELSE 'decision' END AS waits_for,
       o.action, o.provider, _op_redact(r.args, _op_spec(o.action) -> 'redact') AS args, o.generation,
       o.submitted_by, o.created_at, o.first_sent_at, o.last_sent_at, o.reason, o.contradiction,
       o.external_id, o.failed_ids,
       (SELECT jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
                   'n', a.n, 'kind', a.kind, 'generation', a.generation, 'at', a.started_at, 'verdict', a.verdict,
                   'reason', a.reason, 'http_status', a.http_status, 'external_id', a.external_id,
                   'error', a.error)) ORDER BY a.n)
          FROM op_attempt AS a WHERE a.op_id = o.op_id) AS evidence,
       f.key_forgotten_at, f.quiet_at,
       (SELECT d.due_at FROM op_due AS d WHERE d.op_id = o.op_id) AS next_lookup_at,
       f.suggestion, f.console, op_digest(o.op_id) AS digest
  FROM op_operation AS o
  LEFT JOIN op_request AS r ON r.op_id = o.op_id AND r.generation = o.generation
 CROSS JOIN LATERAL _op_review_facts(o.op_id) AS f
 WHERE o.state IN ('review', 'held');

COMMENT ON VIEW op_review IS
	'What waits for a person, with all that is known: operations in review (op_resolve) and those held for an approval (op_approve, op_reject).';
COMMENT ON COLUMN op_review.waits_for IS 'decision: the machine cannot tell what happened; approval: nothing was sent yet';
COMMENT ON COLUMN op_review.evidence IS 'what each exchange showed, oldest first; op_evidence() has all of it';
COMMENT ON COLUMN op_review.key_forgotten_at IS 'the provider forgets the key then; NULL: nothing was sent, or it never remembers one';
COMMENT ON COLUMN op_review.quiet_at IS 'from then on nothing that was sent can still arise, and op_resolve() takes failed; NULL: nothing was sent';
COMMENT ON COLUMN op_review.next_lookup_at IS 'the machine asks the provider again then; NULL: it does not';
COMMENT ON COLUMN op_review.console IS 'the provider''s page about it, from the spec''s "console"';
COMMENT ON COLUMN op_review.digest IS 'of the request, for op_approve()';
