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
