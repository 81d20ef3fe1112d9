-- Configuration: providers, actions, and pausing them.

-- An action's spec, merged: the profile, over it its action, over it the
-- provider, over it the action's own.
CREATE FUNCTION _op_spec(action text) RETURNS jsonb
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, @extschema@, pg_temp AS $$
DECLARE
	v_spec jsonb;
BEGIN
	SELECT _op_merge(_op_merge(_op_merge(_op_merge(
	           coalesce(f.spec -> 'provider', '{}'),
	           coalesce(f.spec -> 'actions' -> a.template, '{}')),
	           jsonb_strip_nulls(jsonb_build_object('base_url', p.base_url, 'secret', p.secret))),
	           p.spec), a.spec) - 'account' || jsonb_strip_nulls(jsonb_build_object('account', p.account))
	  INTO v_spec
	  FROM op_action AS a
	  JOIN op_provider AS p ON p.name = a.provider
	  LEFT JOIN op_profile AS f ON f.name = p.profile
	 WHERE a.name = _op_spec.action;
	RETURN v_spec;
END
$$;
COMMENT ON FUNCTION _op_spec(text) IS 'The merged spec of an action; NULL: no such action.';

-- Without the profile it was made from, an action is half of itself.
CREATE FUNCTION _op_whole_spec(action text) RETURNS jsonb
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, @extschema@, pg_temp AS $$
DECLARE
	v_action record;
BEGIN
	SELECT p.name AS provider, p.profile, a.template, f.spec IS NOT NULL AS has_profile,
	       a.template IS NULL OR f.spec -> 'actions' ? a.template AS has_template,
	       (SELECT string_agg(k, ', ' ORDER BY k) FROM jsonb_object_keys(f.spec -> 'actions') AS k) AS templates
	  INTO v_action
	  FROM op_action AS a
	  JOIN op_provider AS p ON p.name = a.provider
	  LEFT JOIN op_profile AS f ON f.name = p.profile
	 WHERE a.name = _op_whole_spec.action;
	IF NOT v_action.has_profile THEN
		RAISE EXCEPTION USING ERRCODE = 'OL005',
			MESSAGE = format('profile "%s" does not exist', v_action.profile),
			DETAIL = format('Action "%s" of provider "%s" is made from it.', action, v_action.provider),
			HINT = format('There are: %s. UPDATE op_provider to name one of them.',
			              (SELECT string_agg(f.name, ', ' ORDER BY f.name) FROM op_profile AS f));
	ELSIF NOT v_action.has_template THEN
		RAISE EXCEPTION USING ERRCODE = 'OL005',
			MESSAGE = format('profile "%s" has no action "%s"', v_action.profile, v_action.template),
			DETAIL = format('Action "%s" of provider "%s" is made from it.', action, v_action.provider),
			HINT = format('It has: %s.', v_action.templates);
	END IF;
	RETURN _op_spec(action);
END
$$;
COMMENT ON FUNCTION _op_whole_spec(text) IS
	'The merged spec of an action; NULL: no such action. Error OL005: its profile, or the action of the profile that it starts from, does not exist.';

CREATE FUNCTION op_provider_add(name text, profile text DEFAULT 'http', base_url text DEFAULT NULL,
                                secret text DEFAULT NULL, spec jsonb DEFAULT '{}', account text DEFAULT NULL)
	RETURNS void
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, @extschema@, pg_temp AS $$
#variable_conflict use_column
DECLARE
	v_profile jsonb;
	v_action  text;
BEGIN
	IF name IS NULL OR name !~ '^[a-z][a-z0-9_-]{0,62}$' THEN
		RAISE EXCEPTION USING ERRCODE = 'OL003',
			MESSAGE = format('provider name %s is not usable', coalesce(quote_literal(name), 'NULL')),
			HINT = 'Use 1 to 63 lower-case letters, digits, "_" and "-", with a letter first.';
	END IF;
	SELECT f.spec INTO v_profile FROM op_profile AS f WHERE f.name = op_provider_add.profile;
	IF NOT FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'OL005',
			MESSAGE = format('profile %s does not exist', coalesce('"' || profile || '"', 'NULL')),
			HINT = format('There are: %s.', (SELECT string_agg(f.name, ', ' ORDER BY f.name) FROM op_profile AS f));
	END IF;
	PERFORM _op_check_part(format('spec of provider "%s"', op_provider_add.name), coalesce(op_provider_add.spec, '{}'), true);
	IF EXISTS (SELECT FROM op_provider AS p WHERE p.name = op_provider_add.name) THEN
		RAISE EXCEPTION USING ERRCODE = 'duplicate_object',
			MESSAGE = format('provider "%s" exists', op_provider_add.name),
			HINT = 'Change its row in op_provider with UPDATE; changes are checked.';
	END IF;
	INSERT INTO op_provider (name, profile, base_url, secret, spec, account)
	VALUES (op_provider_add.name, op_provider_add.profile, op_provider_add.base_url,
	        op_provider_add.secret, coalesce(op_provider_add.spec, '{}'), op_provider_add.account);
	FOR v_action IN SELECT jsonb_object_keys(coalesce(v_profile -> 'actions', '{}')) LOOP
		INSERT INTO op_action (name, provider, template)
		VALUES (op_provider_add.name || '.' || v_action, op_provider_add.name, v_action);
		PERFORM _op_check_spec(op_provider_add.name || '.' || v_action,
		                       _op_spec(op_provider_add.name || '.' || v_action));
	END LOOP;
END
$$;
COMMENT ON FUNCTION op_provider_add(text, text, text, text, jsonb, text) IS
	'Adds a provider and the actions of its profile (stripe -> stripe.refund, …). base_url: scheme, host and port of every request. secret: file:NAME inside op_ledger.secret_dir, or env:NAME. spec: what differs from the profile. account: a word for the account that the secret belongs to; unless given, the secret''s reference. Errors: OL003 wrong spec, OL005 no such profile.';

CREATE FUNCTION op_action_add(name text, provider text, spec jsonb) RETURNS void
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, @extschema@, pg_temp AS $$
#variable_conflict use_column
BEGIN
	IF name IS NULL OR name !~ '^[A-Za-z][A-Za-z0-9_.-]{0,99}$' THEN
		RAISE EXCEPTION USING ERRCODE = 'OL003',
			MESSAGE = format('action name %s is not usable', coalesce(quote_literal(name), 'NULL')),
			HINT = 'Use 1 to 100 letters, digits, "_", "." and "-", with a letter first, such as "shop.order".';
	END IF;
	IF spec IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'OL003',
			MESSAGE = format('the spec of action "%s" is NULL', op_action_add.name),
			HINT = 'Pass an object with at least "request"; doc/providers.md shows one.';
	END IF;
	IF NOT EXISTS (SELECT FROM op_provider AS p WHERE p.name = op_action_add.provider) THEN
		RAISE EXCEPTION USING ERRCODE = 'OL005',
			MESSAGE = format('provider %s does not exist', coalesce('"' || provider || '"', 'NULL')),
			HINT = 'Add it with op_provider_add() first.';
	END IF;
	IF EXISTS (SELECT FROM op_action AS a WHERE a.name = op_action_add.name) THEN
		RAISE EXCEPTION USING ERRCODE = 'duplicate_object',
			MESSAGE = format('action "%s" exists', op_action_add.name),
			HINT = 'Change its row in op_action with UPDATE; changes are checked.';
	END IF;
	PERFORM _op_check_part(format('spec of action "%s"', op_action_add.name), op_action_add.spec, false);
	INSERT INTO op_action (name, provider, spec)
	VALUES (op_action_add.name, op_action_add.provider, op_action_add.spec);
	PERFORM _op_check_spec(op_action_add.name, _op_whole_spec(op_action_add.name));
END
$$;
COMMENT ON FUNCTION op_action_add(text, text, jsonb) IS
	'Adds a kind of operation at a provider. spec: see doc/providers.md. Errors: OL003 wrong spec, with the path of the field; OL005 no such provider.';

-- Another secret is another account's, unless account is set with it.
CREATE FUNCTION _op_account_follows() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION _op_account_follows() IS 'Makes the account of a provider that of its new secret, unless the UPDATE sets it.';

CREATE TRIGGER op_provider_account BEFORE UPDATE OF secret, spec ON op_provider
	FOR EACH ROW WHEN (OLD.secret IS DISTINCT FROM NEW.secret OR OLD.spec -> 'secret' IS DISTINCT FROM NEW.spec -> 'secret')
	EXECUTE FUNCTION _op_account_follows();

CREATE FUNCTION op_provider_rotate(name text, secret text) RETURNS void
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, @extschema@, pg_temp AS $$
#variable_conflict use_column
DECLARE
	v_account text;
BEGIN
	IF secret IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'OL003',
			MESSAGE = format('the new secret of provider %s is NULL', coalesce(quote_literal(name), 'NULL')),
			HINT = 'Say where it is read: file:NAME or env:NAME.';
	END IF;
	PERFORM _op_check_part(format('the secret of provider "%s"', name), jsonb_build_object('secret', secret), true);
	-- A secret in the spec goes before the column's.
	UPDATE op_provider AS p
	   SET secret = op_provider_rotate.secret,
	       spec = CASE WHEN p.spec ? 'secret' THEN jsonb_set(p.spec, '{secret}', to_jsonb(op_provider_rotate.secret)) ELSE p.spec END,
	       account = coalesce(p.account, p.spec ->> 'secret', p.secret,
	                          (SELECT f.spec -> 'provider' ->> 'secret' FROM op_profile AS f WHERE f.name = p.profile))
	 WHERE p.name = op_provider_rotate.name
	RETURNING p.account INTO v_account;
	IF NOT FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'OL005',
			MESSAGE = format('provider %s does not exist', coalesce(quote_literal(name), 'NULL')),
			HINT = 'op_provider lists them.';
	END IF;
	INSERT INTO op_event (actor, event, note)
	VALUES (_op_actor(), 'provider_rotated',
	        format('%s: secret %s, account %s', op_provider_rotate.name, op_provider_rotate.secret, coalesce(v_account, 'none')));
END
$$;
COMMENT ON FUNCTION op_provider_rotate(text, text) IS
	'Another secret of the same account: what is under way goes on. secret: file:NAME or env:NAME. For another account''s secret UPDATE op_provider: then what was sent is only looked up. Errors: OL003 wrong secret, OL005 no such provider.';

-- What was sent, has not ended, and is asked after in another place now.
CREATE FUNCTION _op_elsewhere(provider text, OUT operations bigint, OUT oldest timestamptz, OUT example text)
	LANGUAGE sql STABLE SET search_path = pg_catalog, @extschema@, pg_temp AS $$
	WITH here AS MATERIALIZED (
		SELECT a.name, _op_place(_op_spec(a.name)) AS place FROM op_action AS a WHERE a.provider = _op_elsewhere.provider)
	SELECT count(*), min(o.last_sent_at), (array_agg(o.op_id ORDER BY o.last_sent_at))[1]
	  FROM op_due AS d
	  JOIN op_operation AS o ON o.op_id = d.op_id
	  JOIN here AS h ON h.name = o.action
	 WHERE d.provider = _op_elsewhere.provider AND o.place <> h.place AND (o.state <> 'pending' OR o.adopted);
$$;
COMMENT ON FUNCTION _op_elsewhere(text) IS
	'Of a provider: operations that were sent to another account, or asked after in another way, than its row and actions say now.';

-- Configuration that is changed by hand is checked as well; inserts are not, so
-- that a dump loads its tables in any order.
CREATE FUNCTION _op_check_changed() RETURNS trigger
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, @extschema@, pg_temp AS $$
DECLARE
	v_action   text;
	v_provider text := CASE TG_TABLE_NAME WHEN 'op_action' THEN to_jsonb(NEW) ->> 'provider' ELSE NEW.name END;
	v_left     bigint;
BEGIN
	FOR v_action IN
		SELECT a.name FROM op_action AS a
		 WHERE CASE TG_TABLE_NAME WHEN 'op_action' THEN a.name = NEW.name ELSE a.provider = NEW.name END
	LOOP
		PERFORM _op_check_spec(v_action, _op_whole_spec(v_action));
	END LOOP;
	SELECT e.operations INTO v_left FROM _op_elsewhere(v_provider) AS e;
	IF v_left > 0 THEN
		RAISE NOTICE USING
			MESSAGE = format('operations of provider "%s" that were sent to another account, or asked after in another way: %s', v_provider, v_left),
			DETAIL = 'They are looked up, but only an object of theirs is proof: by machine they are not sent again, and do not fail.',
			HINT = CASE TG_TABLE_NAME WHEN 'op_action' THEN 'Change it back, and they go on; or op_resolve() each.'
			       ELSE 'Another secret of the same account: op_provider_rotate(). Change it back, and they go on; or op_resolve() each.' END;
	END IF;
	RETURN NULL;
END
$$;
COMMENT ON FUNCTION _op_check_changed() IS 'Checks the specs that a change of configuration touches, and says what it leaves undecided.';

CREATE TRIGGER op_action_check AFTER UPDATE OF spec, template, provider ON op_action
	FOR EACH ROW EXECUTE FUNCTION _op_check_changed();
CREATE TRIGGER op_provider_check AFTER UPDATE OF spec, profile, base_url, secret, account ON op_provider
	FOR EACH ROW EXECUTE FUNCTION _op_check_changed();

CREATE FUNCTION _op_provider_set_paused(name text, paused boolean, note text) RETURNS void
	LANGUAGE plpgsql SET search_path = pg_catalog, @extschema@, pg_temp AS $$
#variable_conflict use_column
BEGIN
	UPDATE op_provider AS p
	   SET paused = _op_provider_set_paused.paused,
	       paused_at = CASE WHEN _op_provider_set_paused.paused THEN clock_timestamp() END,
	       paused_note = CASE WHEN _op_provider_set_paused.paused THEN _op_provider_set_paused.note END,
	       paused_by = CASE WHEN _op_provider_set_paused.paused THEN _op_actor() END
	 WHERE p.name = _op_provider_set_paused.name;
	IF NOT FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'OL005',
			MESSAGE = format('provider %s does not exist', coalesce('"' || name || '"', 'NULL')),
			HINT = 'op_provider lists them.';
	END IF;
	INSERT INTO op_event (actor, event, note)
	VALUES (_op_actor(), CASE WHEN _op_provider_set_paused.paused THEN 'provider_paused' ELSE 'provider_resumed' END,
	        concat_ws(': ', _op_provider_set_paused.name, _op_provider_set_paused.note));
	PERFORM _op_wake();
END
$$;
COMMENT ON FUNCTION _op_provider_set_paused(text, boolean, text) IS 'Pauses or resumes, and records who did.';

CREATE FUNCTION op_provider_pause(name text, note text DEFAULT NULL) RETURNS void
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, @extschema@, pg_temp AS $$
BEGIN
	PERFORM _op_provider_set_paused(op_provider_pause.name, true, op_provider_pause.note);
END
$$;
COMMENT ON FUNCTION op_provider_pause(text, text) IS
	'Sends nothing to this provider until op_provider_resume(); what was submitted waits, lookups go on slowly. note: why; op_event and op_health() show it. Error OL005: no such provider.';

CREATE FUNCTION op_provider_resume(name text) RETURNS void
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, @extschema@, pg_temp AS $$
BEGIN
	PERFORM _op_provider_set_paused(op_provider_resume.name, false, NULL);
END
$$;
COMMENT ON FUNCTION op_provider_resume(text) IS
	'Sends to this provider again, after op_provider_pause() or after a request was blocked (401, 403, no secret). Error OL005: no such provider.';

CREATE FUNCTION _op_wake() RETURNS void LANGUAGE c VOLATILE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION _op_wake() IS 'Wakes this database''s worker when the transaction commits.';

-- What operations refer to stays: an id must answer for ever.
CREATE FUNCTION _op_in_use() RETURNS trigger
	LANGUAGE plpgsql SET search_path = pg_catalog, @extschema@, pg_temp AS $$
DECLARE
	v_used boolean;
BEGIN
	IF TG_TABLE_NAME = 'op_provider' THEN
		v_used := EXISTS (SELECT FROM op_action AS a WHERE a.provider = OLD.name);
	ELSE
		v_used := EXISTS (SELECT FROM op_operation AS o WHERE o.action = OLD.name);
	END IF;
	IF v_used THEN
		RAISE EXCEPTION USING ERRCODE = 'dependent_objects_still_exist',
			MESSAGE = format('%s "%s" is in use', CASE TG_TABLE_NAME WHEN 'op_provider' THEN 'provider' ELSE 'action' END, OLD.name),
			DETAIL = CASE TG_TABLE_NAME WHEN 'op_provider' THEN 'It has actions.' ELSE 'There are operations of it, and their ids must go on to answer.' END,
			HINT = CASE TG_TABLE_NAME WHEN 'op_provider' THEN 'Delete its actions first; those that have operations stay. op_provider_pause() stops what is sent.'
			       ELSE 'op_provider_pause() stops what is sent to its provider.' END;
	END IF;
	RETURN OLD;
END
$$;
COMMENT ON FUNCTION _op_in_use() IS 'Refuses to delete what operations refer to.';

CREATE TRIGGER op_action_in_use BEFORE DELETE ON op_action FOR EACH ROW EXECUTE FUNCTION _op_in_use();
CREATE TRIGGER op_provider_in_use BEFORE DELETE ON op_provider FOR EACH ROW EXECUTE FUNCTION _op_in_use();
