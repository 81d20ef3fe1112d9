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
