-- Op ids computed from what is done: never from who does it, or when.
CREATE FUNCTION op_key(kind text, VARIADIC parts text[]) RETURNS text
	LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION op_key(text, text[]) IS
	'The op id of one deed: op_key(''refund'', ''1043'', ''li_2'') is refund-1043-li_2. Different parts give different ids; blanks at the ends and the composition of accents do not count. Error OL006: a part is null or empty, or the id has more than 200 characters.';

CREATE FUNCTION op_run_key(run_id text, step text, tool text, args jsonb) RETURNS text
	LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION op_run_key(text, text, text, jsonb) IS
	'The op id of one tool call of an agent: sha256, in hex, of run_id:step:tool:canonical JSON of args. Error OL006: something is null or empty, or has a colon in it.';

CREATE FUNCTION op_canonical_json(value jsonb) RETURNS text
	LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION op_canonical_json(jsonb) IS
	'One text per value: keys in the order of their code points, no white space, numbers with all digits, without exponent and without zeros at the end of a fraction.';

-- Windows on what lies below, for tests and for people who write profiles.
CREATE FUNCTION _op_read_json(body bytea) RETURNS jsonb
	LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION _op_read_json(bytea) IS
	'A body as the ledger reads it: JSON with U+FFFD for what cannot be text, NULL for what is no JSON. Never an error.';

CREATE FUNCTION _op_lossy_text(bytes bytea) RETURNS text
	LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION _op_lossy_text(bytea) IS 'Bytes as text for people: U+FFFD for what is no UTF-8.';

CREATE FUNCTION _op_id_fault(op_id text) RETURNS text
	LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION _op_id_fault(text) IS 'Why a text is no op id; NULL: it is one.';

CREATE FUNCTION _op_marker(namespace text, op_id text, generation int) RETURNS text
	LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION _op_marker(text, text, int) IS
	'The name that is written on the provider''s object: the namespace as it is, the op id, from generation 2 on ~2.';

CREATE FUNCTION _op_marker_generation(marker text, namespace text, op_id text) RETURNS int
	LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION _op_marker_generation(text, text, text) IS
	'The generation that a marker names; 0: it is not one of this operation.';

CREATE FUNCTION _op_idempotency_key(format text, max int, namespace text, op_id text, generation int)
	RETURNS text
	LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION _op_idempotency_key(text, int, text, text, int) IS
	'The key that a provider sees. format: raw, quoted, uuid or sha256; max: characters the provider takes.';

CREATE FUNCTION _op_template(kind text, template jsonb, args jsonb, names jsonb DEFAULT '{}')
	RETURNS text
	LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION _op_template(text, jsonb, jsonb, jsonb) IS
	'What a template of a spec becomes with these args. kind: text, path, query, form, json; or names, for the placeholders in it. names: op_id, marker, external_id, key.';
