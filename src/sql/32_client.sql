-- A harness that sends by itself: actions with "executor": "client".
CREATE TYPE op_ticket AS
(
	op_id         text,
	decision      text,
	attempt       integer,
	key           text,
	marker        text,
	args          jsonb,
	method        text,
	url           text,
	headers       text[],
	body          bytea,
	lease_until   timestamptz,
	state         text,
	external_id   text,
	retry_after_s integer,
	reason        text,
	message       text
);
COMMENT ON TYPE op_ticket IS
	'What op_claim() answers. decision: send (commit, send exactly this under this key before lease_until, report), lookup (the provider is being asked), wait (somebody has it, or it is too early), done, review. The request is there only with send; it holds no secret. args and marker are for an SDK, method, url, headers and body are the frozen request.';
COMMENT ON COLUMN op_ticket.op_id IS 'the operation';
COMMENT ON COLUMN op_ticket.decision IS 'send, lookup, wait, done or review';
COMMENT ON COLUMN op_ticket.attempt IS 'for op_report(); NULL unless decision is send';
COMMENT ON COLUMN op_ticket.key IS 'the idempotency key to send under';
COMMENT ON COLUMN op_ticket.marker IS 'the name to put on the provider''s object';
COMMENT ON COLUMN op_ticket.args IS 'the arguments, for an SDK';
COMMENT ON COLUMN op_ticket.method IS 'the HTTP method';
COMMENT ON COLUMN op_ticket.url IS 'address, path and query';
COMMENT ON COLUMN op_ticket.headers IS '"Name: value" lines, without the secret';
COMMENT ON COLUMN op_ticket.body IS 'bytes; NULL: none';
COMMENT ON COLUMN op_ticket.lease_until IS 'nothing may be sent from then on';
COMMENT ON COLUMN op_ticket.state IS 'of op_operation';
COMMENT ON COLUMN op_ticket.external_id IS 'the provider''s name for the result; NULL: not known';
COMMENT ON COLUMN op_ticket.retry_after_s IS 'seconds after which it is worth asking again; NULL: now, or never';
COMMENT ON COLUMN op_ticket.reason IS 'why it is in this state, one word';
COMMENT ON COLUMN op_ticket.message IS 'the same for people, in a sentence';

CREATE FUNCTION op_claim(op_id text, lease interval DEFAULT '30 s') RETURNS op_ticket
	LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, @extschema@, pg_temp
	AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION op_claim(text, interval) IS
	'Claims an operation of a client executor: it is marked submitted, and may be sent when this transaction is committed, not before. The commit is synchronous, whatever synchronous_commit says. lease: from the claim to the report, 1 s to 1 h; one that runs out without a report leaves the outcome unknown, and nobody else may send meanwhile. Errors: OL001 no such operation; OL004 wrong lease, or the worker sends it; OL010 this copy of the ledger may not send.';

CREATE FUNCTION op_report(op_id text, attempt integer, status integer DEFAULT NULL, headers jsonb DEFAULT NULL,
                          body bytea DEFAULT NULL, error text DEFAULT NULL, sent boolean DEFAULT NULL)
	RETURNS op_receipt
	LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, @extschema@, pg_temp
	AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION op_report(text, integer, integer, jsonb, bytea, text, boolean) IS
	'Brings back what a client saw of the attempt that op_claim() gave: the answer''s status, headers ({name: value}) and body as it came, or the error. sent => false: surely no byte left. A late report is recorded, and may confirm. Errors: OL001 no such operation; OL004 not an attempt of a client, or no such status.';
