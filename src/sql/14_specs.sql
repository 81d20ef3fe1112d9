-- What an answer proves and what follows from it, as pure functions: for people who
-- write profiles, and for tests.

CREATE FUNCTION _op_classify(
	spec jsonb,
	evidence jsonb,
	OUT verdict text,
	OUT reason text,
	OUT external_id text,
	OUT retry_at timestamptz,
	OUT keyed bool,
	OUT unmarked bool)
LANGUAGE C STABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', '_op_classify';
COMMENT ON FUNCTION _op_classify(jsonb, jsonb) IS
'What one exchange proves. spec: as far as it matters for answers. evidence: {kind: send|lookup, sent, phase: none|resolve|connect|tls|sent|head|done, curl_code, status, headers: {name: value}, body: text or JSON, body_base64, cut, too_late, error, retry_after: seconds, finished_at, op_id, generation}; without op_id the marker is not compared. unmarked: the object of a 2xx, or all that is in the list, has no marker';

CREATE FUNCTION _op_decide(
	operation jsonb,
	promises jsonb,
	finding jsonb,
	now timestamptz,
	OUT state text,
	OUT step text,
	OUT due_at timestamptz,
	OUT sealed text,
	OUT contradiction bool,
	OUT reason text)
LANGUAGE C STABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', '_op_decide';
COMMENT ON FUNCTION _op_decide(jsonb, jsonb, jsonb, timestamptz) IS
'What follows from a verdict. operation: {state, tainted, sealed, contradiction, adopted, generation, tries, attempts, trying_since, first_sent_at, last_sent_at, external_id, not_after, place}; promises: {ttl, stores, guards, margin, timeout, flight, lag, recipe, attempts, patience, give_up, initial, base, max, jitter, place}, durations as text, places as any words; finding: {verdict, kind: send|lookup|door|late, keyed, started_at, retry_at, object: none|same|other, object_failed, same_generation, unmarked, dice}';

CREATE FUNCTION _op_place(spec jsonb)
RETURNS bigint
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', '_op_place';
COMMENT ON FUNCTION _op_place(jsonb) IS
'A digest of what in a merged spec tells whose account is asked, and how: account (else secret), lookup, object, success.object, proxy and tls';

-- For op_provider_add() and op_action_add().
CREATE FUNCTION _op_merge(under jsonb, over jsonb)
RETURNS jsonb
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', '_op_merge';
COMMENT ON FUNCTION _op_merge(jsonb, jsonb) IS
'One spec over another: objects key by key, arrays and scalars replaced; a null takes an inherited field away';

CREATE FUNCTION _op_check_spec(name text, merged jsonb)
RETURNS void
LANGUAGE C STABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', '_op_check_spec';
COMMENT ON FUNCTION _op_check_spec(text, jsonb) IS
'Checks the merged spec of an action: OL003 says what is wrong and where, NOTICEs say what is accepted at a price';

CREATE FUNCTION _op_check_part(what text, part jsonb, provider_level bool)
RETURNS void
LANGUAGE C STABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', '_op_check_part';
COMMENT ON FUNCTION _op_check_part(text, jsonb, bool) IS
'Checks one part of a spec before it is merged: names and types of its fields, and whether they may stand at this level. what: for messages, like: spec of provider "stripe"';
