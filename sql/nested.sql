-- A trigger of the user's that calls op_ledger, also where it catches an error, does
-- not disturb the call that it runs in.
CREATE FUNCTION pg_temp.look() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM op_status(NEW.op_id);
	BEGIN
		PERFORM op_status('nobody at all');
	EXCEPTION WHEN SQLSTATE 'OL001' THEN
		NULL;
	END;
	RETURN NULL;
END $$;
CREATE TRIGGER look AFTER INSERT OR UPDATE ON op_operation FOR EACH ROW EXECUTE FUNCTION pg_temp.look();
SELECT count(*) FILTER (WHERE (s).is_new) AS new, count(*) FILTER (WHERE NOT (s).is_new) AS again
  FROM (SELECT op_submit('nested-' || i % 50, 'shop.order', '{"sku": "a", "count": 1}') AS s FROM generate_series(1, 100) AS i) AS t;
SELECT (op_cancel('nested-1')).state;
CALL op_execute('nested-51', 'shop.order', '{"sku": "a", "count": 1}', '0 s');
CALL op_execute('nested-51', 'shop.order', '{"sku": "a", "count": 1}', '0 s');
DROP TRIGGER look ON op_operation;
-- Rows are written without statements; triggers for rows and constraints see to
-- their duty all the same, and a trigger that says no is heard.
CREATE TABLE pg_temp.seen (what text);
CREATE FUNCTION pg_temp.note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO pg_temp.seen VALUES (format('%s %s %s', TG_TABLE_NAME, lower(TG_OP), TG_ARGV[0]));
	RETURN NULL;
END $$;
CREATE TRIGGER born AFTER INSERT ON op_operation FOR EACH ROW EXECUTE FUNCTION pg_temp.note('born');
CREATE TRIGGER state AFTER UPDATE OF state ON op_operation FOR EACH ROW EXECUTE FUNCTION pg_temp.note('of state');
CREATE TRIGGER run AFTER UPDATE OF run_id ON op_operation FOR EACH ROW EXECUTE FUNCTION pg_temp.note('of run_id');
CREATE TRIGGER due AFTER INSERT OR DELETE ON op_due FOR EACH ROW EXECUTE FUNCTION pg_temp.note('agenda');
SELECT (op_submit('nested-60', 'shop.order', '{"sku": "a", "count": 1}')).is_new;
SELECT (op_cancel('nested-60')).state;
SELECT * FROM pg_temp.seen;
DROP TRIGGER born ON op_operation;
DROP TRIGGER state ON op_operation;
DROP TRIGGER run ON op_operation;
DROP TRIGGER due ON op_due;
CREATE FUNCTION pg_temp.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER refuse BEFORE INSERT ON op_operation FOR EACH ROW EXECUTE FUNCTION pg_temp.refuse();
SELECT op_submit('nested-61', 'shop.order', '{"sku": "a", "count": 1}');
DROP TRIGGER refuse ON op_operation;
SELECT count(*) FROM op_request WHERE op_id = 'nested-61';
CREATE TRIGGER refuse BEFORE INSERT ON op_due FOR EACH ROW EXECUTE FUNCTION pg_temp.refuse();
SELECT op_submit('nested-61', 'shop.order', '{"sku": "a", "count": 1}');
DROP TRIGGER refuse ON op_due;
CREATE TRIGGER refuse BEFORE INSERT ON op_request FOR EACH ROW EXECUTE FUNCTION pg_temp.refuse();
SELECT op_submit('nested-61', 'shop.order', '{"sku": "a", "count": 1}');
DROP TRIGGER refuse ON op_request;
SELECT count(*) FROM op_operation WHERE op_id = 'nested-61';
CREATE TRIGGER refuse BEFORE UPDATE ON op_operation FOR EACH ROW EXECUTE FUNCTION pg_temp.refuse();
SELECT op_cancel('nested-51');
DROP TRIGGER refuse ON op_operation;
-- A column too many is no harm; one that is gone, or another type, is.
ALTER TABLE op_operation ADD COLUMN mine text;
SELECT (op_submit('nested-62', 'shop.order', '{"sku": "a", "count": 1}')).is_new;
ALTER TABLE op_operation RENAME COLUMN lane TO alley;
SELECT op_submit('nested-63', 'shop.order', '{"sku": "a", "count": 1}');
ALTER TABLE op_operation RENAME COLUMN alley TO lane;
ALTER TABLE op_operation ALTER COLUMN lane TYPE integer USING NULL;
SELECT op_submit('nested-63', 'shop.order', '{"sku": "a", "count": 1}');
ALTER TABLE op_operation ALTER COLUMN lane TYPE text USING NULL;
ALTER TABLE op_operation DROP COLUMN mine;
-- Columns of the user's get what an INSERT would give them.
BEGIN;
ALTER TABLE op_operation ADD COLUMN tenant text NOT NULL DEFAULT 'acme-' || pg_backend_pid() % 1, ADD COLUMN loud text GENERATED ALWAYS AS (upper(op_id)) STORED;
ALTER TABLE op_request ADD COLUMN nth bigint GENERATED ALWAYS AS IDENTITY;
SELECT (op_submit('nested-65', 'shop.order', '{"sku": "a", "count": 1}')).is_new;
SELECT op_id, tenant, loud FROM op_operation WHERE op_id = 'nested-65';
SELECT op_id, nth > 0 AS numbered FROM op_request WHERE op_id = 'nested-65';
SELECT (op_cancel('nested-65')).state;
ROLLBACK;
SELECT (op_submit('nested-63', 'shop.order', '{"sku": "a", "count": 1}')).is_new;
-- An action that a trigger changes and asks for again is still what the submit that
-- fired the trigger works with.
CREATE FUNCTION pg_temp.change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF pg_trigger_depth() = 1 THEN
		UPDATE op_action SET spec = spec || '{"retry": {"patience": "7 min"}}' WHERE name = 'shop.order';
		PERFORM op_submit(NEW.op_id || '-audit', 'shop.order', '{"sku": "a", "count": 1}');
	END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER change BEFORE INSERT ON op_operation FOR EACH ROW EXECUTE FUNCTION pg_temp.change();
BEGIN;
SET LOCAL client_min_messages = warning;
SELECT (op_submit('nested-64', 'shop.order', '{"sku": "a", "count": 1}')).is_new;
SELECT op_id, provider, step FROM op_due WHERE op_id LIKE 'nested-64%' ORDER BY op_id;
ROLLBACK;
DROP TRIGGER change ON op_operation;
-- A statement goes on, too, when a trigger of its own made op_ledger prepare all anew.
CREATE FUNCTION pg_temp.rename() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	CREATE SCHEMA nested;
	DROP SCHEMA nested;
	PERFORM op_status(NEW.op_id);
	RETURN NEW;
END $$;
CREATE TRIGGER rename BEFORE INSERT ON op_event FOR EACH ROW EXECUTE FUNCTION pg_temp.rename();
SELECT (op_cancel('nested-62')).state;
DROP TRIGGER rename ON op_event;
-- What a trigger keeps from being written is not taken for written.
SELECT (op_submit('nested-90', 'shop.order', '{"sku": "a", "count": 1}')).is_new;
CREATE FUNCTION pg_temp.keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.state := OLD.state; RETURN NEW; END $$;
CREATE TRIGGER keep BEFORE UPDATE ON op_operation FOR EACH ROW EXECUTE FUNCTION pg_temp.keep();
SELECT op_cancel('nested-90');
DROP TRIGGER keep ON op_operation;
SELECT (op_cancel('nested-90')).state;
