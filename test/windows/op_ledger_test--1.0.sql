\echo Use "CREATE EXTENSION op_ledger_test" to load this file. \quit

-- Functions of op_ledger that no SQL of the product calls; each is what windows.c
-- or stored.c makes of functions in C.

CREATE FUNCTION _op_promises(spec jsonb)
RETURNS jsonb
LANGUAGE C STABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', '_op_promises';
COMMENT ON FUNCTION _op_promises(jsonb) IS
'The promises of a spec, defaults filled in, as _op_decide() takes them';

CREATE FUNCTION _op_freeze(
	spec jsonb,
	op_id text,
	generation int,
	args jsonb,
	traceparent text,
	OUT key text,
	OUT method text,
	OUT url text,
	OUT headers text[],
	OUT body bytea)
LANGUAGE C STABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', '_op_freeze';
COMMENT ON FUNCTION _op_freeze(jsonb, text, int, jsonb, text) IS
'The request of an operation as it would be frozen, without its secret: what goes out for these arguments';

CREATE FUNCTION _op_webhook_check(webhook jsonb, secret text, headers jsonb, body bytea, now timestamptz) RETURNS text
	LANGUAGE C STABLE STRICT PARALLEL SAFE
	AS 'MODULE_PATHNAME', '_op_webhook_check';
COMMENT ON FUNCTION _op_webhook_check(jsonb, text, jsonb, bytea, timestamptz) IS
'Is a delivery genuine? webhook: as in the spec of a provider. Answers good, bad, stale or no_key.';

CREATE FUNCTION _op_read_json(body bytea) RETURNS jsonb
	LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION _op_read_json(bytea) IS
	'A body as the ledger reads it: JSON with U+FFFD for what cannot be text, NULL for what is no JSON. Never an error.';

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

-- Not pure: these write and read the tables of the ledger, by its store.
CREATE FUNCTION _op_fields_write() RETURNS void LANGUAGE c VOLATILE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION _op_fields_write() IS 'Writes every field that the store writes, each with a value of its own, for a test.';

CREATE FUNCTION _op_fields_read(op_id text) RETURNS TABLE (field text, value text)
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION _op_fields_read(text) IS 'Every field of an operation as the store reads it, for a test.';
