-- What people do to operations. Each verb locks the operation first, checks the
-- state it expects, and leaves actor and note in op_event.
CREATE FUNCTION _op_actor() RETURNS text LANGUAGE c STABLE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION _op_actor() IS 'Who called, also inside a function that runs with its owner''s rights.';

CREATE FUNCTION op_cancel(op_id text, note text DEFAULT NULL) RETURNS op_receipt
	LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, @extschema@, pg_temp
	AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION op_cancel(text, text) IS
	'Withdraws an operation that was never sent (cancelled), or was proven not executed (failed, reason withdrawn). Otherwise it changes nothing, and the receipt says that it is too late, or how the operation ended. Error OL001: no such operation.';

CREATE FUNCTION op_resolve(op_id text, outcome text, external_id text DEFAULT NULL, note text DEFAULT NULL)
	RETURNS op_receipt
	LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, @extschema@, pg_temp
	AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION op_resolve(text, text, text, text) IS
	'A person says what became of an operation that is unknown, accepted or in review. outcome: confirmed (with the provider''s external_id), failed (not before nothing sent can still arise), or unknown (let the machine go on). note: how it was found out; required. Errors: OL001 no such operation; OL004 wrong outcome, external_id or note; OL007 not in this state, or too early, with the moment from which on it can be said.';

CREATE FUNCTION op_recheck(op_id text) RETURNS op_receipt
	LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, @extschema@, pg_temp
	AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION op_recheck(text) IS
	'Has the provider asked soon about an operation that is unknown, accepted or in review: not sooner than retry.initial after the last time. Errors: OL001 no such operation; OL007 not in this state, or its action has no lookup.';

CREATE FUNCTION op_reissue(op_id text, note text) RETURNS op_receipt
	LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, @extschema@, pg_temp
	AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION op_reissue(text, text) IS
	'Tries an operation anew that failed, under a new key and marker: the next generation. Only a person can. note: why; required. Errors: OL001 no such operation; OL004 no note, or its arguments do not fit the action any more; OL007 it has not failed, something sent can still arise, or its request was purged.';

CREATE FUNCTION op_approve(op_id text, note text DEFAULT NULL, digest text DEFAULT NULL) RETURNS op_receipt
	LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, @extschema@, pg_temp
	AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION op_approve(text, text, text) IS
	'Lets an operation go that is held for an approval. digest: that of the request which was looked at, as op_digest() and op_review show it; the approval is for these bytes alone. Errors: OL001 no such operation; OL007 not held, or the request is not the one that was looked at or recorded.';

CREATE FUNCTION op_reject(op_id text, note text DEFAULT NULL) RETURNS op_receipt
	LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, @extschema@, pg_temp
	AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION op_reject(text, text) IS
	'Ends an operation that is held for an approval: cancelled, nothing is ever sent. Errors: OL001 no such operation; OL007 not held.';

CREATE FUNCTION op_digest(op_id text) RETURNS text
	LANGUAGE c STABLE SECURITY DEFINER SET search_path = pg_catalog, @extschema@, pg_temp
	AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION op_digest(text) IS
	'The digest of what is sent for an operation, in its present generation: sha256, in hex, of method, url, key, body and each header line, written one after the other as LENGTH:BYTES, with "-," for what there is none of. NULL: it was purged. Error OL001: no such operation.';
