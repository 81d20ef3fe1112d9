-- Nothing is granted to PUBLIC; op_grant() gives by name.
DO $$
DECLARE
	v_routine regprocedure;
BEGIN
	FOR v_routine IN
		SELECT d.objid FROM pg_catalog.pg_depend AS d
		  JOIN pg_catalog.pg_extension AS e ON e.oid = d.refobjid
		 WHERE d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass
		   AND d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass
		   AND d.deptype = 'e' AND e.extname = 'op_ledger'
	LOOP
		EXECUTE pg_catalog.format('REVOKE ALL ON ROUTINE %s FROM PUBLIC', v_routine);
	END LOOP;
END
$$;

CREATE FUNCTION op_grant(role text, level text) RETURNS void
	LANGUAGE plpgsql SET search_path = pg_catalog, @extschema@, pg_temp AS $$
DECLARE
	v_submit  text[] := ARRAY['op_submit', 'op_status', 'op_wait', 'op_execute', 'op_key', 'op_run_key',
	                          'op_canonical_json', 'op_transitions', 'op_claim', 'op_report', 'op_webhook'];
	v_operate text[] := ARRAY['op_cancel', 'op_resolve', 'op_recheck', 'op_reissue', 'op_approve', 'op_reject',
	                          'op_digest', 'op_explain', 'op_evidence', 'op_export', 'op_timeline', 'op_health', 'op_provider_pause', 'op_provider_resume',
	                          '_op_review_facts', '_op_redact', '_op_spec', '_op_whole_spec', '_op_objects', '_op_merge']; -- op_review calls these
	v_admin   text[] := ARRAY['op_provider_add', 'op_provider_rotate', 'op_action_add', 'op_adopt', 'op_purge'];
	v_tables  text[] := ARRAY['op_operation', 'op_request', 'op_due', 'op_nudge', 'op_attempt', 'op_event',
	                          'op_provider', 'op_action', 'op_profile', 'op_control', 'op_review'];
	v_schema  text;
	v_names   text[];
	v_routine regprocedure;
	v_table   text;
BEGIN
	v_names := CASE level
		WHEN 'submit' THEN v_submit
		WHEN 'operate' THEN v_submit || v_operate
		WHEN 'admin' THEN v_submit || v_operate || v_admin
	END;
	IF v_names IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
			MESSAGE = format('level %s does not exist', coalesce(quote_literal(level), 'NULL')),
			HINT = 'Levels are submit, operate and admin; each includes the ones before.';
	END IF;
	SELECT n.nspname INTO STRICT v_schema
	  FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid = e.extnamespace
	 WHERE e.extname = 'op_ledger';
	EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', v_schema, role);
	FOR v_routine IN
		SELECT p.oid FROM pg_proc AS p
		  JOIN pg_depend AS d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
		  JOIN pg_extension AS e ON e.oid = d.refobjid AND e.extname = 'op_ledger'
		 WHERE p.proname = ANY (v_names)
	LOOP
		EXECUTE format('GRANT EXECUTE ON ROUTINE %s TO %I', v_routine, role);
	END LOOP;
	IF level <> 'submit' THEN
		FOREACH v_table IN ARRAY v_tables LOOP
			EXECUTE format('GRANT SELECT ON %I.%I TO %I', v_schema, v_table, role);
		END LOOP;
	END IF;
	IF level = 'admin' THEN
		EXECUTE format('GRANT UPDATE ON %1$I.op_provider, %1$I.op_action TO %2$I', v_schema, role);
	END IF;
END
$$;
COMMENT ON FUNCTION op_grant(text, text) IS
	'Gives a role what it needs. submit: submit, ask and wait. operate: also what people do (cancel, resolve, recheck, reissue, approve, reject), pause, resume, op_health, read all tables. admin: also providers and actions.';
REVOKE ALL ON FUNCTION op_grant(text, text) FROM PUBLIC;
