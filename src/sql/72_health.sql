-- What runs, what is due, what is stuck: op_health() asks one function for each
-- check, in the order in which it shows them. A check of a thing that may be missing
-- (a paused provider, an orphan) has a row for each it found, and else none.
CREATE TYPE _op_check AS
(
	check_name text,
	status     text,
	detail     text,
	hint       text
);
COMMENT ON TYPE _op_check IS 'One row of op_health(). status: ok, warning, critical.';
COMMENT ON COLUMN _op_check.check_name IS 'what was looked at';
COMMENT ON COLUMN _op_check.status IS 'ok, warning or critical';
COMMENT ON COLUMN _op_check.detail IS 'what was found';
COMMENT ON COLUMN _op_check.hint IS 'what to do; NULL: nothing';

CREATE FUNCTION _op_health_worker() RETURNS SETOF _op_check
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, @extschema@, pg_temp AS $$
DECLARE
	v_worker  record;
	v_enabled boolean := coalesce(current_setting('op_ledger.enabled', true), 'off')::boolean;
	v_check   _op_check;
BEGIN
	SELECT bool_or(w.preloaded) AS preloaded,
	       CASE WHEN bool_or(w.state = 'running') THEN 'running'
	            WHEN bool_or(w.state = 'starting') THEN 'starting' ELSE 'absent' END AS state,
	       string_agg(w.pid::text, ', ' ORDER BY w.number) AS pid, min(w.started_at) AS started_at,
	       min(coalesce(w.turn_at, w.started_at)) AS turn_at, sum(w.in_flight) AS in_flight
	  INTO v_worker FROM _op_worker() AS w;
	v_check.check_name := 'worker';
	IF NOT v_worker.preloaded THEN
		v_check.status := 'critical';
		v_check.detail := 'op_ledger is not preloaded: nothing is sent';
		v_check.hint := 'Add op_ledger to shared_preload_libraries and restart the server.';
	ELSIF pg_is_in_recovery() THEN
		v_check.status := 'ok';
		v_check.detail := 'this is a standby: its primary sends';
	ELSIF NOT v_enabled THEN
		v_check.status := 'warning';
		v_check.detail := 'op_ledger.enabled is off: nothing is sent';
		v_check.hint := 'Set op_ledger.enabled = on and reload.';
	ELSIF v_worker.state = 'running' AND v_worker.turn_at < clock_timestamp() - interval '30 s' THEN
		v_check.status := 'critical';
		v_check.detail := format('worker %s has not finished a turn since %s', v_worker.pid, v_worker.turn_at);
		v_check.hint := 'Look at pg_stat_activity for what it waits for; pg_terminate_backend() is safe, it comes back.';
	ELSIF v_worker.state = 'running' THEN
		v_check.status := 'ok';
		v_check.detail := format('worker %s running since %s, %s in flight',
		                         v_worker.pid, v_worker.started_at, v_worker.in_flight);
	ELSE
		v_check.status := CASE v_worker.state WHEN 'starting' THEN 'warning' ELSE 'critical' END;
		v_check.detail := format('worker of this database is %s: nothing is sent', v_worker.state);
		v_check.hint := 'See the server log; raise max_worker_processes if it says so, and check op_ledger.databases.';
	END IF;
	RETURN NEXT v_check;
END
$$;
COMMENT ON FUNCTION _op_health_worker() IS 'Does a worker run for this database, and does it get on?';

CREATE FUNCTION _op_health_home() RETURNS SETOF _op_check
	LANGUAGE sql STABLE SET search_path = pg_catalog, @extschema@, pg_temp AS $$
SELECT 'home', CASE WHEN f.fault IS NULL THEN 'ok' ELSE 'critical' END,
       CASE WHEN f.fault IS NULL THEN 'this is the ledger''s home'
            ELSE f.fault || coalesce('; its home is ' || (
                SELECT string_agg(format('database %s of system %s since %s', c.database_oid, c.system_identifier, c.adopted_at), ', ')
                  FROM op_control AS c, _op_home() AS h
                 WHERE NOT c.retired
                   AND (c.system_identifier, c.database_oid, c.extension_oid)
                       IS DISTINCT FROM (h.system_identifier, h.database_oid, h.extension_oid)), '') END,
       CASE WHEN f.fault IS NOT NULL THEN
            'A copy does not send. While the original goes on, leave this one as it is: a record. When the original never sends again: SELECT * FROM op_adopt(''why'').' END
  FROM (SELECT _op_home_fault() AS fault) AS f
$$;
COMMENT ON FUNCTION _op_health_home() IS 'May this copy of the ledger send?';

CREATE FUNCTION _op_health_clock() RETURNS SETOF _op_check
	LANGUAGE sql STABLE SET search_path = pg_catalog, @extschema@, pg_temp AS $$
SELECT 'clock', w.status,
       CASE WHEN isfinite(c.steady_since) THEN format('steady since %s', c.steady_since) ELSE 'steady' END
       || CASE WHEN c.steps > 0 THEN format('; it was set %s by %s at %s', CASE WHEN c.last_step < '0' THEN 'back' ELSE 'forward' END,
                                         greatest(c.last_step, -c.last_step), c.stepped_at) ELSE '' END,
       CASE WHEN w.status <> 'ok' THEN
            'What was sent before that moment is taken as sent then: absence is believed, and op_resolve() takes failed, as much later. Let the clock be slewed, not set.' END
  FROM _op_clock() AS c,
       LATERAL (SELECT CASE WHEN c.stepped_at > c.now - interval '1 h' THEN 'warning' ELSE 'ok' END AS status) AS w
$$;
COMMENT ON FUNCTION _op_health_clock() IS 'Was the wall clock set lately, and since when is quiet counted?';

CREATE FUNCTION _op_health_due() RETURNS SETOF _op_check
	LANGUAGE sql STABLE SET search_path = pg_catalog, @extschema@, pg_temp AS $$
SELECT 'due', c.status, format('%s due%s', c.n, ', the oldest since ' || c.oldest),
       CASE WHEN c.status <> 'ok' THEN 'The worker is down, or a provider''s concurrency is too small for what is submitted.' END
  FROM (SELECT count(*) AS n, min(d.due_at) AS oldest,
               CASE WHEN min(d.due_at) < clock_timestamp() - interval '5 min' THEN 'warning' ELSE 'ok' END AS status
          FROM op_due AS d JOIN op_provider AS p ON p.name = d.provider
         WHERE d.due_at <= clock_timestamp() AND d.epoch IS NULL AND d.step <> 'claim'
           AND NOT (p.paused AND d.step = 'send')) AS c
$$;
COMMENT ON FUNCTION _op_health_due() IS 'Does the worker keep up with what is due?';

CREATE FUNCTION _op_health_client() RETURNS SETOF _op_check
	LANGUAGE sql STABLE SET search_path = pg_catalog, @extschema@, pg_temp AS $$
SELECT 'client', 'warning', format('%s wait for a client to claim them, the oldest since %s', c.n, c.oldest),
       'The client executor is down, or does not know of them: it calls op_claim() for what it submitted.'
  FROM (SELECT count(*) AS n, min(d.due_at) AS oldest FROM op_due AS d WHERE d.step = 'claim') AS c
 WHERE c.oldest < clock_timestamp() - interval '5 min'
$$;
COMMENT ON FUNCTION _op_health_client() IS 'Do client executors claim what they submitted? No row: they do.';

CREATE FUNCTION _op_health_provider() RETURNS SETOF _op_check
	LANGUAGE sql STABLE SET search_path = pg_catalog, @extschema@, pg_temp AS $$
SELECT 'provider', CASE WHEN p.paused_by IS NULL THEN 'critical' ELSE 'warning' END,
       CASE WHEN p.paused_by IS NULL
            THEN format('provider "%s" is paused since %s: %s', p.name, p.paused_at, coalesce(p.paused_note, 'no note'))
            ELSE format('provider "%s" is paused since %s by %s%s', p.name, p.paused_at, p.paused_by, ': ' || p.paused_note) END,
       format(CASE WHEN p.paused_by IS NULL THEN 'Repair the cause, then SELECT op_provider_resume(%L).'
                   ELSE 'What is submitted waits. To send again: SELECT op_provider_resume(%L).' END, p.name)
  FROM op_provider AS p WHERE p.paused ORDER BY p.name
$$;
COMMENT ON FUNCTION _op_health_provider() IS 'A row for each provider that is paused: critical when the ledger had to, a warning when a person wanted it.';

CREATE FUNCTION _op_health_retrying() RETURNS SETOF _op_check
	LANGUAGE sql STABLE SET search_path = pg_catalog, @extschema@, pg_temp AS $$
SELECT 'retrying', c.status,
       format('%s could not be sent yet%s', c.n,
              CASE WHEN c.n > 0 THEN format(', the oldest since %s (%s)', c.oldest, c.example) END),
       CASE WHEN c.status <> 'ok' THEN 'Is the provider reachable? After retry.patience they end as failed, reason gave_up; a URL is frozen with its request.' END
  FROM (SELECT count(*) AS n, min(o.trying_since) AS oldest,
               (array_agg(format('%s: %s', o.provider, o.reason) ORDER BY o.trying_since))[1] AS example,
               CASE WHEN min(o.trying_since) < clock_timestamp() - interval '1 min' THEN 'warning' ELSE 'ok' END AS status
          FROM op_due AS d JOIN op_operation AS o ON o.op_id = d.op_id
         WHERE o.state = 'pending' AND o.trying_since IS NOT NULL) AS c
$$;
COMMENT ON FUNCTION _op_health_retrying() IS 'What was tried and could not be sent: is a provider out of reach?';

CREATE FUNCTION _op_health_orphan() RETURNS SETOF _op_check
	LANGUAGE sql STABLE SET search_path = pg_catalog, @extschema@, pg_temp AS $$
SELECT 'orphan', 'critical', format('%s due of provider "%s", which does not exist', count(*), d.provider),
       'Add the provider again, under its name, with op_provider_add().'
  FROM op_due AS d
 WHERE NOT EXISTS (SELECT FROM op_provider AS p WHERE p.name = d.provider)
 GROUP BY d.provider ORDER BY d.provider
$$;
COMMENT ON FUNCTION _op_health_orphan() IS 'A row for each provider that has operations and does not exist.';

CREATE FUNCTION _op_health_unknown() RETURNS SETOF _op_check
	LANGUAGE sql STABLE SET search_path = pg_catalog, @extschema@, pg_temp AS $$
SELECT 'unknown', c.status, format('%s being looked up%s', c.n, ', the oldest sent at ' || c.oldest),
       CASE WHEN c.status <> 'ok' THEN 'See op_timeline() of the oldest: do its lookups fail?' END
  FROM (SELECT count(*) AS n, min(o.last_sent_at) AS oldest,
               CASE WHEN min(o.last_sent_at) < clock_timestamp() - interval '1 h' THEN 'warning' ELSE 'ok' END AS status
          FROM op_due AS d JOIN op_operation AS o ON o.op_id = d.op_id
         WHERE o.state = 'unknown') AS c
$$;
COMMENT ON FUNCTION _op_health_unknown() IS 'What may have taken effect and is being looked up: does it end?';

CREATE FUNCTION _op_health_place() RETURNS SETOF _op_check
	LANGUAGE sql STABLE SET search_path = pg_catalog, @extschema@, pg_temp AS $$
SELECT 'place', 'warning',
       format('operations of provider "%s" that were sent to another account, or asked after in another way: %s, the oldest at %s: %s',
              p.name, e.operations, e.oldest, e.example),
       'Change account, lookup, object, proxy or tls back until they have ended, or op_resolve() each; op_explain() says more of one.'
  FROM op_provider AS p CROSS JOIN LATERAL _op_elsewhere(p.name) AS e
 WHERE e.operations > 0 ORDER BY p.name
$$;
COMMENT ON FUNCTION _op_health_place() IS 'A row for each provider whose account, or way to be asked, was changed under operations that have not ended.';

CREATE FUNCTION _op_health_lookup() RETURNS SETOF _op_check
	LANGUAGE sql STABLE SET search_path = pg_catalog, @extschema@, pg_temp AS $$
SELECT 'lookup', 'critical',
       format('lookups of provider "%s" are refused (%s): %s operations, the oldest sent at %s',
              d.provider, max(a.reason), count(*), min(o.last_sent_at)),
       'Repair the credential or its rights; until then nobody finds out what happened.'
  FROM op_due AS d
  JOIN op_operation AS o ON o.op_id = d.op_id
  JOIN op_attempt AS a ON a.op_id = o.op_id AND a.n = o.attempts
 WHERE d.step = 'lookup' AND a.kind = 'lookup'
   AND (a.http_status IN (401, 403, 407) OR a.reason = 'secret')
 GROUP BY d.provider ORDER BY d.provider
$$;
COMMENT ON FUNCTION _op_health_lookup() IS 'A row for each provider that refuses our lookups.';

CREATE FUNCTION _op_health_review() RETURNS SETOF _op_check
	LANGUAGE sql STABLE SET search_path = pg_catalog, @extschema@, pg_temp AS $$
SELECT 'review', CASE WHEN c.n > 0 THEN 'warning' ELSE 'ok' END,
       format('%s wait for a person%s', c.n, ', the oldest since ' || c.oldest),
       CASE WHEN c.n > 0 THEN 'SELECT * FROM op_review shows what is known, and suggests what to do.' END
  FROM (SELECT count(*) AS n, min(coalesce(o.last_sent_at, o.created_at)) AS oldest
          FROM op_operation AS o WHERE o.state = 'review') AS c
$$;
COMMENT ON FUNCTION _op_health_review() IS 'What waits for a person.';

CREATE FUNCTION _op_health_turns() RETURNS SETOF _op_check
	LANGUAGE sql STABLE SET search_path = pg_catalog, @extschema@, pg_temp AS $$
SELECT 'turns', c.status,
       CASE WHEN c.failed_at IS NULL THEN '0 failed'
            ELSE format('%s failed, the last at %s: %s', c.n, c.failed_at, c.failure) END,
       CASE WHEN c.status <> 'ok' THEN 'The worker goes on by itself; the server log has the whole error.' END
  FROM (SELECT sum(w.failed_turns) AS n, max(w.failed_at) AS failed_at,
               (array_agg(w.failure ORDER BY w.failed_at DESC NULLS LAST))[1] AS failure,
               CASE WHEN max(w.failed_at) > clock_timestamp() - interval '5 min' THEN 'warning' ELSE 'ok' END AS status
          FROM _op_worker() AS w) AS c
$$;
COMMENT ON FUNCTION _op_health_turns() IS 'Did turns of a worker end in an error?';

CREATE FUNCTION _op_health_row_lock() RETURNS SETOF _op_check
	LANGUAGE sql STABLE SET search_path = pg_catalog, @extschema@, pg_temp AS $$
SELECT 'row_lock', c.status,
       coalesce('an answer waits since ' || c.since || ' for a row that a session holds', 'no answer waits'),
       CASE WHEN c.status <> 'ok' THEN 'End the transaction that holds a row of op_operation: see pg_locks.' END
  FROM (SELECT min(w.held_since) AS since,
               CASE WHEN min(w.held_since) < clock_timestamp() - interval '30 s' THEN 'warning' ELSE 'ok' END AS status
          FROM _op_worker() AS w) AS c
$$;
COMMENT ON FUNCTION _op_health_row_lock() IS 'Does an answer wait for a row that a session has locked?';

-- op_ledger inserts into all of these, updates op_operation and op_due, and deletes
-- from op_due and op_nudge row by row; only op_purge() uses statements.
CREATE FUNCTION _op_health_trigger() RETURNS SETOF _op_check
	LANGUAGE sql STABLE SET search_path = pg_catalog, @extschema@, pg_temp AS $$
SELECT 'trigger', 'warning', format('%s "%s" on %s does not see what op_ledger writes', u.what, u.name, u.table_name),
       'op_ledger writes rows without statements. A trigger FOR EACH ROW, without transition tables, sees each of them.'
  FROM (SELECT CASE WHEN t.tgtype & 1 = 0 THEN 'statement trigger' ELSE 'trigger with transition tables' END AS what,
               t.tgname AS name, c.relname AS table_name
          FROM pg_trigger AS t
          JOIN pg_class AS c ON c.oid = t.tgrelid
         WHERE NOT t.tgisinternal AND t.tgenabled <> 'D'
           AND (t.tgtype & 1 = 0 OR t.tgoldtable IS NOT NULL OR t.tgnewtable IS NOT NULL)
           AND (t.tgtype & (4 | 16) <> 0 OR t.tgtype & 8 <> 0 AND c.relname IN ('op_due', 'op_nudge'))
           AND c.oid IN ('op_operation'::regclass, 'op_request'::regclass, 'op_due'::regclass,
                         'op_nudge'::regclass, 'op_attempt'::regclass, 'op_event'::regclass)
        UNION ALL
        SELECT 'rule', r.rulename, c.relname
          FROM pg_rewrite AS r
          JOIN pg_class AS c ON c.oid = r.ev_class
         WHERE r.ev_enabled <> 'D'
           AND c.oid IN ('op_operation'::regclass, 'op_request'::regclass, 'op_due'::regclass,
                         'op_nudge'::regclass, 'op_attempt'::regclass, 'op_event'::regclass)) AS u
 ORDER BY u.table_name, u.name
$$;
COMMENT ON FUNCTION _op_health_trigger() IS 'A row for each trigger or rule that waits for statements which op_ledger does not use.';

-- To add a check: a function above, and its line here.
CREATE FUNCTION op_health()
	RETURNS TABLE (check_name text, status text, detail text, hint text)
	LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, @extschema@, pg_temp AS $$
SELECT * FROM _op_health_worker()
UNION ALL SELECT * FROM _op_health_home()
UNION ALL SELECT * FROM _op_health_clock()
UNION ALL SELECT * FROM _op_health_due()
UNION ALL SELECT * FROM _op_health_client()
UNION ALL SELECT * FROM _op_health_provider()
UNION ALL SELECT * FROM _op_health_retrying()
UNION ALL SELECT * FROM _op_health_orphan()
UNION ALL SELECT * FROM _op_health_unknown()
UNION ALL SELECT * FROM _op_health_place()
UNION ALL SELECT * FROM _op_health_lookup()
UNION ALL SELECT * FROM _op_health_review()
UNION ALL SELECT * FROM _op_health_turns()
UNION ALL SELECT * FROM _op_health_row_lock()
UNION ALL SELECT * FROM _op_health_trigger()
$$;
COMMENT ON FUNCTION op_health() IS
	'What runs, what is due, what is stuck, since when, and what to do. status: ok, warning, critical.';
