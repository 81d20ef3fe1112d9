-- Nothing is open to PUBLIC, functions and tables alike.
SELECT p.oid::regprocedure AS open_to_all
  FROM pg_proc AS p JOIN pg_depend AS d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
  JOIN pg_extension AS e ON e.oid = d.refobjid AND e.extname = 'op_ledger'
 WHERE has_function_privilege('public', p.oid, 'EXECUTE');
SELECT c.oid::regclass AS open_to_all
  FROM pg_class AS c JOIN pg_depend AS d ON d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e'
  JOIN pg_extension AS e ON e.oid = d.refobjid AND e.extname = 'op_ledger'
 WHERE c.relkind IN ('r', 'S', 'v') AND has_table_privilege('public', c.oid, 'SELECT');

-- Every public function says what it does, and has its own search_path when it
-- writes with the owner's rights.
SELECT p.oid::regprocedure AS without_comment
  FROM pg_proc AS p JOIN pg_depend AS d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
  JOIN pg_extension AS e ON e.oid = d.refobjid AND e.extname = 'op_ledger'
 WHERE obj_description(p.oid, 'pg_proc') IS NULL;
SELECT p.oid::regprocedure AS without_search_path
  FROM pg_proc AS p JOIN pg_depend AS d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
  JOIN pg_extension AS e ON e.oid = d.refobjid AND e.extname = 'op_ledger'
 WHERE p.prosecdef AND NOT coalesce(p.proconfig::text LIKE '%search_path=pg_catalog%', false);

CREATE ROLE op_app;
CREATE ROLE op_night;
CREATE ROLE op_boss;
SELECT op_grant('op_app', 'submit'), op_grant('op_night', 'operate'), op_grant('op_boss', 'admin');
\set VERBOSITY terse
SELECT op_grant('op_app', 'everything');

SET ROLE op_app;
SELECT is_new FROM op_submit('r1', 'shop.order', '{"sku": "a", "count": 1}');
SELECT state FROM op_status('r1');
CALL op_execute('r1', 'shop.order', '{"sku": "a", "count": 1}', '0 s');
SELECT op_cancel('r1');
SELECT * FROM op_request;
SELECT op_provider_pause('shop');
RESET ROLE;
SELECT submitted_by FROM op_operation WHERE op_id = 'r1';

SET ROLE op_night;
SELECT state FROM op_cancel('r1', 'by night');
SELECT actor, event, note FROM op_event WHERE op_id = 'r1';
SELECT count(*) > 0 AS reads FROM op_request;
SELECT op_provider_pause('shop', 'again');
SELECT op_action_add('shop.x', 'shop', '{}');
RESET ROLE;

SET ROLE op_boss;
SET client_min_messages = error;
SELECT op_provider_add('boss', base_url => 'https://127.0.0.1:1');
RESET client_min_messages;
DELETE FROM op_operation;
RESET ROLE;
DROP OWNED BY op_app, op_night, op_boss;
DROP ROLE op_app, op_night, op_boss;
