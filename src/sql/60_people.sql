-- What people do to operations. Each verb locks the operation first, checks the
-- state it expects, and leaves actor and note in op_event.
CREATE FUNCTION _op_actor() RETURNS text LANGUAGE c STABLE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION _op_actor() IS 'Who called, also inside a function that runs with its owner''s rights.';

CREATE FUNCTION op_cancel(op_id text, note text DEFAULT NULL) RETURNS op_receipt
	LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, @extschema@, pg_temp
	AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION op_cancel(text, text) IS
	'Withdraws an operation that was never sent (cancelled), or was proven not executed (failed, reason withdrawn). Otherwise it changes nothing, and the receipt says that it is too late, or how the operation ended. Error OL001: no such operation.';

CREATE FUNCTION op_resolve(op_id text, outcome text, external_id text DEFAULT NULL, note text DEFAULT NULL)
	RETURNS op_receipt
	LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, @extschema@, pg_temp
	AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION op_resolve(text, text, text, text) IS
	'A person says what became of an operation that is unknown, accepted or in review. outcome: confirmed (with the provider''s external_id), failed (not before nothing sent can still arise), or unknown (let the machine go on). note: how it was found out; required. Errors: OL001 no such operation; OL004 wrong outcome, external_id or note; OL007 not in this state, or too early, with the moment from which on it can be said.';

CREATE FUNCTION op_recheck(op_id text) RETURNS op_receipt
	LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, @extschema@, pg_temp
	AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION op_recheck(text) IS
	'Has the provider asked soon about an operation that is unknown, accepted or in review: not sooner than retry.initial after the last time. Errors: OL001 no such operation; OL007 not in this state, or its action has no lookup.';

CREATE FUNCTION op_reissue(op_id text, note text) RETURNS op_receipt
	LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, @extschema@, pg_temp
	AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION op_reissue(text, text) IS
	'Tries an operation anew that failed, under a new key and marker: the next generation. Only a person can. note: why; required. Errors: OL001 no such operation; OL004 no note, or its arguments do not fit the action any more; OL007 it has not failed, something sent can still arise, or its request was purged.';

CREATE FUNCTION op_approve(op_id text, note text DEFAULT NULL, digest text DEFAULT NULL) RETURNS op_receipt
	LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, @extschema@, pg_temp
	AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION op_approve(text, text, text) IS
	'Lets an operation go that is held for an approval. digest: that of the request which was looked at, as op_digest() and op_review show it; the approval is for these bytes alone. Errors: OL001 no such operation; OL007 not held, or the request is not the one that was looked at or recorded.';

CREATE FUNCTION op_reject(op_id text, note text DEFAULT NULL) RETURNS op_receipt
	LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, @extschema@, pg_temp
	AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION op_reject(text, text) IS
	'Ends an operation that is held for an approval: cancelled, nothing is ever sent. Errors: OL001 no such operation; OL007 not held.';

CREATE FUNCTION op_digest(op_id text, generation integer DEFAULT NULL) RETURNS text
	LANGUAGE c STABLE SECURITY DEFINER SET search_path = pg_catalog, @extschema@, pg_temp
	AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION op_digest(text, integer) IS
	'The digest of what is sent for an operation in one generation, else the present one: sha256, in hex, of method, url, key, body and each header line, written one after the other as LENGTH:BYTES, with "-," for what there is none of. NULL: it was purged. Error OL001: no such operation.';

CREATE FUNCTION op_explain(op_id text) RETURNS TABLE (topic text, at timestamptz, says text)
	LANGUAGE c STABLE SECURITY DEFINER SET search_path = pg_catalog, @extschema@, pg_temp
	AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION op_explain(text) IS
	'What the ledger would do next with an operation, when and why, and what would follow from each answer: asked of the same decisions that the worker makes, without doing anything. Error OL001: no such operation.';

CREATE FUNCTION _op_redact(document jsonb, paths jsonb) RETURNS jsonb
	LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION _op_redact(jsonb, jsonb) IS 'The document with "***" at each place that a spec''s "redact" names.';

CREATE FUNCTION _op_shown(body bytea, form boolean, paths jsonb, headers bytea DEFAULT NULL) RETURNS jsonb
	LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION _op_shown(bytea, boolean, jsonb, bytea) IS
	'A body for people: its length, its sha256, and itself, decoded as its headers say, as text, json (where something is redacted) or base64; withheld, if there is something to redact and it cannot be taken apart. form: it is a=1&b[c]=2.';

CREATE FUNCTION _op_lossy_text(bytes bytea) RETURNS text
	LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION _op_lossy_text(bytea) IS 'Bytes as text for people: U+FFFD for what is no UTF-8.';

CREATE FUNCTION _op_review_facts(op_id text, OUT key_forgotten_at timestamptz, OUT quiet_at timestamptz,
                                 OUT suggestion text, OUT console text)
	LANGUAGE c STABLE SECURITY DEFINER SET search_path = pg_catalog, @extschema@, pg_temp
	AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION _op_review_facts(text) IS 'What op_review adds to the stored row of an operation.';

CREATE FUNCTION op_evidence(op_id text) RETURNS jsonb
	LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, @extschema@, pg_temp AS $$
#variable_conflict use_column
DECLARE
	v_op     op_operation;
	v_redact jsonb;
BEGIN
	SELECT * INTO v_op FROM op_operation AS o WHERE o.op_id = op_evidence.op_id;
	IF NOT FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'OL001',
			MESSAGE = format('operation "%s" does not exist', op_evidence.op_id),
			HINT = 'It was never submitted, or its transaction has not been committed.';
	END IF;
	v_redact := _op_spec(v_op.action) -> 'redact';
	RETURN jsonb_build_object(
		'op_id', v_op.op_id,
		'made_at', clock_timestamp(),
		'operation', to_jsonb(v_op) || jsonb_build_object('args_hash', encode(v_op.args_hash, 'hex')),
		'next', (SELECT to_jsonb(d) - 'op_id' - 'provider' FROM op_due AS d WHERE d.op_id = v_op.op_id),
		'requests', (SELECT coalesce(jsonb_agg(to_jsonb(r) - 'op_id' || jsonb_build_object(
		                        'digest', op_digest(r.op_id, r.generation),
		                        'args', _op_redact(r.args, v_redact),
		                        'body', _op_shown(r.body, array_to_string(r.headers, E'\n') ILIKE '%content-type: application/x-www-form-urlencoded%', v_redact))
		                     ORDER BY r.generation), '[]')
		               FROM op_request AS r WHERE r.op_id = v_op.op_id),
		'attempts', (SELECT coalesce(jsonb_agg(jsonb_strip_nulls(to_jsonb(a)) - 'op_id' || jsonb_build_object(
		                        'response_headers', _op_lossy_text(a.response_headers),
		                        'response_body', _op_shown(a.response_body, false, v_redact, a.response_headers))
		                     ORDER BY a.n), '[]')
		               FROM op_attempt AS a WHERE a.op_id = v_op.op_id),
		'objects', (SELECT coalesce(jsonb_agg(jsonb_strip_nulls(to_jsonb(x))), '[]') FROM _op_objects(v_op.op_id) AS x),
		'events', (SELECT coalesce(jsonb_agg(to_jsonb(e) - 'op_id' ORDER BY e.id), '[]')
		             FROM op_event AS e WHERE e.op_id = v_op.op_id));
END
$$;
COMMENT ON FUNCTION op_evidence(text) IS
	'Everything that is known of an operation, in one document, for a dispute: the row, the requests of all generations, every exchange, and what people did. Secrets are in none of it; what the spec''s "redact" names is "***". Error OL001: no such operation.';
