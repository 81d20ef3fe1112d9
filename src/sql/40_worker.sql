-- What the worker and op_health() know of processes and of this place.
CREATE FUNCTION _op_worker(OUT preloaded boolean, OUT number integer, OUT state text, OUT pid integer, OUT epoch bigint,
                           OUT started_at timestamptz, OUT turn_at timestamptz, OUT in_flight integer,
                           OUT held_since timestamptz, OUT failed_turns bigint, OUT failed_at timestamptz,
                           OUT failure text)
	RETURNS SETOF record LANGUAGE c VOLATILE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION _op_worker() IS 'The workers of this database, from shared memory. state: running, starting or absent.';

CREATE FUNCTION _op_clock(OUT now timestamptz, OUT steady_since timestamptz, OUT proven boolean, OUT steps bigint,
	OUT stepped_at timestamptz, OUT last_step interval)
	LANGUAGE C STRICT VOLATILE AS 'MODULE_PATHNAME', '_op_clock';
COMMENT ON FUNCTION _op_clock() IS
	'The ledger''s clock. steady_since: what was sent before is taken as sent then, -infinity: no step is known; proven: not simply since the start of the server; steps: noticed since the machine is up, last_step: positive forward.';

CREATE FUNCTION _op_home(OUT system_identifier bigint, OUT database_oid oid, OUT extension_oid oid,
                         OUT timeline integer, OUT control_inode bigint)
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION _op_home() IS 'What tells this place from a copy of it.';

-- Why this ledger must not send from here; NULL when it may.
CREATE FUNCTION _op_home_fault() RETURNS text LANGUAGE c VOLATILE
	SET search_path = pg_catalog, @extschema@, pg_temp AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION _op_home_fault() IS 'Why nothing is sent from this copy of the ledger; NULL: this is its home.';

CREATE FUNCTION _op_created() RETURNS void LANGUAGE c VOLATILE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION _op_created() IS 'Tells the launcher, at commit, that a database wants a worker.';

INSERT INTO op_control
SELECT h.system_identifier, h.database_oid, h.extension_oid, h.timeline, h.control_inode,
       pg_catalog.clock_timestamp(), session_user
  FROM _op_home() AS h;

SELECT _op_created();
