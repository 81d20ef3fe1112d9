-- A copy of the ledger takes over.
CREATE FUNCTION op_adopt(note text, force boolean DEFAULT false, OUT follows text, OUT operations bigint)
	RETURNS SETOF record
	LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, @extschema@, pg_temp
	AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION op_adopt(text, boolean) IS
	'Makes this copy of the ledger its only home: a restored dump, a copied or upgraded database, a promoted or recovered server. Call it when the original never sends again. Whatever has not ended is looked up before it is sent; the answer counts operations by what follows: lookup, send, review (a person decides), failed (may be reissued when quiet). force: also where it is at home, after restoring a snapshot of the disk. Error 25006 on a standby.';
