CREATE TYPE op_receipt AS
(
	op_id          text,
	state          text,
	effect         text,
	is_new         boolean,
	external_id    text,
	next_action    text,
	may_call_again boolean,
	retry_after_s  integer,
	reason         text,
	message        text
);
COMMENT ON TYPE op_receipt IS
	'What is known of an operation. effect: none, maybe, done. next_action: wait, use_result, fix_request, stop, ask_human. may_call_again: a new operation for the same purpose is safe.';
COMMENT ON COLUMN op_receipt.op_id IS 'the operation';
COMMENT ON COLUMN op_receipt.state IS 'of op_operation';
COMMENT ON COLUMN op_receipt.effect IS 'none, maybe or done';
COMMENT ON COLUMN op_receipt.is_new IS 'this call recorded it';
COMMENT ON COLUMN op_receipt.external_id IS 'the provider''s name for the result; NULL: not known';
COMMENT ON COLUMN op_receipt.next_action IS 'wait, use_result, fix_request, stop or ask_human';
COMMENT ON COLUMN op_receipt.may_call_again IS 'a new operation for the same purpose is safe: this one ended without an effect';
COMMENT ON COLUMN op_receipt.retry_after_s IS 'seconds after which it is worth asking again; NULL: it has ended, or a person must act';
COMMENT ON COLUMN op_receipt.reason IS 'why it is in this state, one word; NULL: nothing to add';
COMMENT ON COLUMN op_receipt.message IS 'the same for people, in a sentence';

CREATE FUNCTION op_submit(op_id text, action text, args jsonb DEFAULT '{}',
                          run_id text DEFAULT NULL, step text DEFAULT NULL, tool_call_id text DEFAULT NULL,
                          traceparent text DEFAULT NULL, dedupe_key text DEFAULT NULL, lane text DEFAULT NULL,
                          not_before timestamptz DEFAULT NULL, not_after timestamptz DEFAULT NULL,
                          cost numeric DEFAULT NULL)
	RETURNS op_receipt
	LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, @extschema@, pg_temp
	AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION op_submit(text, text, jsonb, text, text, text, text, text, text, timestamptz, timestamptz, numeric) IS
	'Records an operation in the caller''s own transaction; it is sent after the commit, once. The same op_id again answers with the first operation''s receipt. args: as the action declares them. traceparent is sent as a header. not_before, not_after: no send before, none from then on. run_id, step, tool_call_id and cost are recorded, and nothing follows from them. Errors: 0A000 dedupe_key and lane have no effect yet, so they are refused; OL002 other arguments under this id, OL004 wrong argument, OL005 no such action, OL006 not an op id.';

CREATE FUNCTION op_status(op_id text) RETURNS op_receipt
	LANGUAGE c STABLE SECURITY DEFINER SET search_path = pg_catalog, @extschema@, pg_temp
	AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION op_status(text) IS 'What is known of an operation now. Error OL001: no such operation.';

CREATE FUNCTION op_wait(op_id text, timeout interval DEFAULT '10 s') RETURNS op_receipt
	LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, @extschema@, pg_temp
	AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION op_wait(text, interval) IS
	'Waits until the operation has ended or needs a person, at most timeout (and 60 s), and answers what is known then. Errors: OL001 no such operation; 25001 in REPEATABLE READ or on an operation of the caller''s own transaction: commit first.';

CREATE PROCEDURE op_execute(op_id text, action text, args jsonb DEFAULT '{}', timeout interval DEFAULT '10 s',
                            INOUT result op_receipt DEFAULT NULL)
	LANGUAGE c AS 'MODULE_PATHNAME';
COMMENT ON PROCEDURE op_execute(text, text, jsonb, interval, op_receipt) IS
	'Submits, commits, and waits between transactions until the operation has ended, at most timeout. Error 25001 inside a transaction block, function or multi-statement string, before anything is done.';

CREATE FUNCTION op_webhook(provider text, headers jsonb, body bytea) RETURNS op_receipt
	LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, @extschema@, pg_temp
	AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION op_webhook(text, jsonb, bytea) IS
	'Takes in what a provider tells by itself: verifies the signature on the raw bytes of the body, finds the operation by our marker or its external id, and treats what the object shows like all evidence. The same event twice is one. NULL: not about an operation of ours. Errors: OL011 not genuine, or signed at another time; OL005 no such provider; OL003 its spec has no "webhook"; OL008 the secret cannot be read.';
