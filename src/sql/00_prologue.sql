\echo Use "CREATE EXTENSION op_ledger" to load this file. \quit

-- Bodies, keys and markers are bytes of UTF-8; another encoding would change them.
DO $$
BEGIN
	IF pg_catalog.getdatabaseencoding() <> 'UTF8' THEN
		RAISE EXCEPTION USING
			ERRCODE = 'feature_not_supported',
			MESSAGE = pg_catalog.format('op_ledger needs a database in UTF8, this one is in %s',
			                            pg_catalog.getdatabaseencoding()),
			HINT = 'Create the database with ENCODING ''UTF8'' TEMPLATE template0.';
	END IF;
END
$$;
