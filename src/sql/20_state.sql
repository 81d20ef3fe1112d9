-- The arrows of state.c, for people and for tests.
CREATE FUNCTION op_transitions(OUT from_state text, OUT to_state text) RETURNS SETOF record
	LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION op_transitions() IS
	'Every change of state that can happen. All others are refused with OL009, for hand-written UPDATEs too.';

CREATE FUNCTION _op_guard() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION _op_guard() IS
	'Refuses changes of state that op_transitions() does not list, changes of what an operation is, and values that are none.';

-- An INSERT may bring any state, so that a dump loads.
CREATE TRIGGER op_operation_guard BEFORE INSERT OR UPDATE ON op_operation
	FOR EACH ROW EXECUTE FUNCTION _op_guard();

CREATE FUNCTION _op_keep() RETURNS trigger LANGUAGE plpgsql
	SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	RAISE EXCEPTION USING
		ERRCODE = 'OL009',
		MESSAGE = format('%s of op_operation is refused', lower(TG_OP)),
		DETAIL = 'An operation whose row is gone could be executed a second time.',
		HINT = 'op_purge() removes the bulk of old operations; their rows here stay.';
END
$$;
COMMENT ON FUNCTION _op_keep() IS 'Refuses to delete operations.';

CREATE TRIGGER op_operation_keep BEFORE DELETE OR TRUNCATE ON op_operation
	FOR EACH STATEMENT EXECUTE FUNCTION _op_keep();
