-- One narrow row per operation, for ever. No index but the key, so that changes of
-- state stay HOT: a turn claims all rows of a page at once, so there must be room for
-- a second, longer version of each. No CHECK: the guard (20_state.sql)
-- knows which values there are, and costs a statement nothing to set up.
CREATE TABLE op_operation
(
	op_id         text COLLATE "C" PRIMARY KEY,
	action        text NOT NULL,
	provider      text NOT NULL,
	state         text NOT NULL,
	tainted       boolean NOT NULL DEFAULT false,
	sealed        text,
	contradiction boolean NOT NULL DEFAULT false,
	adopted       boolean NOT NULL DEFAULT false,
	generation    integer NOT NULL DEFAULT 1,
	attempts      integer NOT NULL DEFAULT 0,
	tries         integer NOT NULL DEFAULT 0,
	trying_since  timestamptz,
	first_sent_at timestamptz,
	last_sent_at  timestamptz,
	lease_until   timestamptz,
	external_id   text,
	failed_ids    text[],
	reason        text,
	args_hash     bytea NOT NULL,
	run_id        text,
	lane          text,
	undoes        text,
	submitted_by  text NOT NULL,
	created_at    timestamptz NOT NULL,
	settled_at    timestamptz,
	place         bigint
) WITH (fillfactor = 35);

COMMENT ON TABLE op_operation IS
	'One row per operation, never deleted: an id is never executed twice.';
COMMENT ON COLUMN op_operation.op_id IS 'what is done, as a name: op_key()';
COMMENT ON COLUMN op_operation.action IS 'the kind of operation, a row of op_action';
COMMENT ON COLUMN op_operation.provider IS 'whom it is sent to, a row of op_provider; never changes';
COMMENT ON COLUMN op_operation.state IS 'held, pending, submitted, unknown, accepted, review, confirmed, failed or cancelled; op_transitions() lists the changes';
COMMENT ON COLUMN op_operation.tainted IS 'a request of ours may have taken effect';
COMMENT ON COLUMN op_operation.sealed IS 'this generation is not sent any more: refused, evidence, or seen at the provider';
COMMENT ON COLUMN op_operation.contradiction IS 'evidence contradicts itself; only a person closes it';
COMMENT ON COLUMN op_operation.adopted IS 'taken over from another time line; no key guards it any more';
COMMENT ON COLUMN op_operation.generation IS '1, and one more each time a person reissues a proven non-effect';
COMMENT ON COLUMN op_operation.attempts IS 'exchanges so far, of all kinds and generations';
COMMENT ON COLUMN op_operation.tries IS 'sends of this generation that may have taken effect';
COMMENT ON COLUMN op_operation.trying_since IS 'first claim of this generation';
COMMENT ON COLUMN op_operation.first_sent_at IS 'the claim from which the window of the key counts';
COMMENT ON COLUMN op_operation.last_sent_at IS 'the last claim';
COMMENT ON COLUMN op_operation.lease_until IS 'no client that ever claimed it sends from then on';
COMMENT ON COLUMN op_operation.external_id IS 'the provider''s name for the result';
COMMENT ON COLUMN op_operation.failed_ids IS 'objects of this operation that are known to have failed';
COMMENT ON COLUMN op_operation.reason IS 'why it is in this state, one word; NULL: nothing to add';
COMMENT ON COLUMN op_operation.place IS
	'where this generation was sent: a digest of account, lookup, object, proxy and tls as they were; NULL: nowhere yet; -1: nobody knows';
COMMENT ON COLUMN op_operation.args_hash IS 'sha256 of the canonical arguments: the same id means the same thing';
COMMENT ON COLUMN op_operation.run_id IS 'the run of an agent that it belongs to; recorded only';
COMMENT ON COLUMN op_operation.lane IS 'operations that go one after another; NULL: lanes do not exist yet';
COMMENT ON COLUMN op_operation.undoes IS 'the operation that this one takes back; NULL: undoing does not exist yet';
COMMENT ON COLUMN op_operation.submitted_by IS 'the role that submitted it first';
COMMENT ON COLUMN op_operation.created_at IS 'when it was submitted first';
COMMENT ON COLUMN op_operation.settled_at IS 'when it ended (confirmed, failed, cancelled); NULL: it has not';

-- The bulk: written once, never changed. Arguments and a body of 1 KB each stay in
-- the row: out of line they cost two more inserts, and two more look-ups to send.
CREATE TABLE op_request
(
	op_id        text COLLATE "C" NOT NULL,
	generation   integer NOT NULL,
	args         jsonb NOT NULL,
	key          text,
	method       text NOT NULL,
	url          text NOT NULL,
	headers      text[] NOT NULL,
	body         bytea,
	step         text,
	tool_call_id text,
	dedupe_key   text,
	traceparent  text,
	not_before   timestamptz,
	not_after    timestamptz,
	cost         numeric,
	base_url     text NOT NULL,
	namespace    text,
	PRIMARY KEY (op_id, generation)
) WITH (toast_tuple_target = 4080);

COMMENT ON TABLE op_request IS
	'What is sent, frozen at submit: the same bytes and the same key at every send of a generation.';
COMMENT ON COLUMN op_request.op_id IS 'the operation';
COMMENT ON COLUMN op_request.generation IS '1, and one more for each op_reissue()';
COMMENT ON COLUMN op_request.args IS 'the arguments as they were submitted';
COMMENT ON COLUMN op_request.key IS 'the idempotency key that the provider sees; NULL: it takes none';
COMMENT ON COLUMN op_request.method IS 'the HTTP method';
COMMENT ON COLUMN op_request.url IS 'address, path and query as they are sent';
COMMENT ON COLUMN op_request.headers IS '"Name: value" lines as they are sent, without the secret';
COMMENT ON COLUMN op_request.body IS 'the body''s bytes; NULL: none';
COMMENT ON COLUMN op_request.step IS 'the step of the run; recorded only';
COMMENT ON COLUMN op_request.tool_call_id IS 'the id of the models tool call; recorded only';
COMMENT ON COLUMN op_request.dedupe_key IS 'NULL: op_submit() refuses it until it has an effect';
COMMENT ON COLUMN op_request.traceparent IS 'W3C trace context, sent as a header';
COMMENT ON COLUMN op_request.not_before IS 'it is not sent before; NULL: at once';
COMMENT ON COLUMN op_request.not_after IS 'no send begins from then on; NULL: no limit';
COMMENT ON COLUMN op_request.cost IS 'what it is expected to cost; recorded only';
COMMENT ON COLUMN op_request.base_url IS 'where lookups ask, whatever the provider''s row says now';
COMMENT ON COLUMN op_request.namespace IS 'in the markers of all generations, whatever the provider''s row says now; NULL: none';

-- The agenda: one small row for every operation that has a next step. It is the
-- lease as well: a claim moves due_at to the attempt's deadline and writes the
-- epoch of the worker that has it.
CREATE TABLE op_due
(
	op_id    text COLLATE "C" PRIMARY KEY,
	provider text COLLATE "C" NOT NULL,
	step     text COLLATE "C" NOT NULL,
	due_at   timestamptz NOT NULL,
	epoch    bigint
) WITH (fillfactor = 50, vacuum_truncate = off,
        autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_insert_scale_factor = 0.5, autovacuum_analyze_scale_factor = 0.5,
        autovacuum_vacuum_cost_delay = 0);

CREATE INDEX op_due_next ON op_due (provider, step, due_at);

COMMENT ON TABLE op_due IS
	'The agenda: what is to be done next, and when. In no dump: a restored ledger has nothing to do.';
COMMENT ON COLUMN op_due.op_id IS 'the operation';
COMMENT ON COLUMN op_due.provider IS 'its provider';
COMMENT ON COLUMN op_due.step IS 'send and lookup: by the worker; claim: a send that waits for op_claim()';
COMMENT ON COLUMN op_due.due_at IS 'when the step is due; of what is in hand, when its attempt must be over';
COMMENT ON COLUMN op_due.epoch IS 'the incarnation of the worker that has it in hand; NULL: nobody';

-- What logical replication brings is another's agenda: a subscriber has none.
CREATE FUNCTION _op_not_replicated() RETURNS trigger LANGUAGE plpgsql
	SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	RETURN NULL;
END
$$;
COMMENT ON FUNCTION _op_not_replicated() IS 'Keeps the agenda of a logical subscriber empty.';

CREATE TRIGGER op_due_not_replicated BEFORE INSERT OR UPDATE ON op_due
	FOR EACH ROW EXECUTE FUNCTION _op_not_replicated();
ALTER TABLE op_due ENABLE REPLICA TRIGGER op_due_not_replicated;

-- Somebody asked about an operation again; the worker drains it.
CREATE TABLE op_nudge
(
	op_id text COLLATE "C" NOT NULL,
	at    timestamptz NOT NULL
) WITH (vacuum_truncate = off);

-- A publisher of all tables deletes here, and needs to say what.
ALTER TABLE op_nudge REPLICA IDENTITY FULL;

COMMENT ON TABLE op_nudge IS 'Insert-only: wishes to look an operation up sooner. Rows live for seconds.';
COMMENT ON COLUMN op_nudge.op_id IS 'the operation somebody asked about';
COMMENT ON COLUMN op_nudge.at IS 'when';

-- Every exchange, with what it showed. Append-only.
CREATE TABLE op_attempt
(
	op_id            text COLLATE "C" NOT NULL,
	n                integer NOT NULL,
	kind             text NOT NULL CHECK (kind IN ('send', 'lookup', 'webhook', 'report')),
	generation       integer NOT NULL,
	started_at       timestamptz NOT NULL,
	finished_at      timestamptz NOT NULL,
	verdict          text NOT NULL,
	reason           text,
	external_id      text,
	http_status      integer,
	curl_code        integer,
	bytes_sent       bigint,
	peer             text,
	connect_us       integer,
	first_byte_us    integer,
	total_us         integer,
	retry_after      integer,
	request_id       text,
	response_headers bytea,
	response_body    bytea,
	error            text,
	pages            integer,
	objects          jsonb,
	PRIMARY KEY (op_id, n)
);

-- Whose object is it that a webhook shows?
CREATE INDEX op_attempt_object ON op_attempt (external_id) WHERE external_id IS NOT NULL;

COMMENT ON TABLE op_attempt IS 'Every exchange with a provider and what it showed; never changed.';
COMMENT ON COLUMN op_attempt.op_id IS 'the operation';
COMMENT ON COLUMN op_attempt.n IS 'number of our own exchange; what came by itself (webhooks), or late, when something else stood there, counts down from -1';
COMMENT ON COLUMN op_attempt.kind IS 'send, lookup (of the worker), report (of a client), webhook';
COMMENT ON COLUMN op_attempt.generation IS 'the generation that it was about';
COMMENT ON COLUMN op_attempt.started_at IS 'when it was claimed, just before anything left';
COMMENT ON COLUMN op_attempt.finished_at IS 'when its answer, or its end, was seen';
COMMENT ON COLUMN op_attempt.verdict IS 'what the exchange proves, or lost: the process ended before its answer';
COMMENT ON COLUMN op_attempt.reason IS 'why the verdict, one word';
COMMENT ON COLUMN op_attempt.external_id IS 'the providers object that it showed; NULL: none';
COMMENT ON COLUMN op_attempt.http_status IS 'status of the answer; NULL: no answer';
COMMENT ON COLUMN op_attempt.curl_code IS 'how the transfer ended for libcurl: 0 well; NULL: not ours';
COMMENT ON COLUMN op_attempt.bytes_sent IS 'bytes of the request that left; 0 is proof that nothing did';
COMMENT ON COLUMN op_attempt.peer IS 'address and port that it was connected to; NULL: none';
COMMENT ON COLUMN op_attempt.connect_us IS 'microseconds until it was connected, TLS not counted; 0: an old connection served';
COMMENT ON COLUMN op_attempt.first_byte_us IS 'microseconds until the first byte of the answer; NULL: there was none';
COMMENT ON COLUMN op_attempt.total_us IS 'microseconds from its start to its end';
COMMENT ON COLUMN op_attempt.retry_after IS 'seconds that the provider asked us to wait; NULL: it did not';
COMMENT ON COLUMN op_attempt.request_id IS 'the provider''s own id of the request, for its support; of a webhook, the id of its event';
COMMENT ON COLUMN op_attempt.response_headers IS 'header lines of the answer, bytes as they came; secrets are blotted out';
COMMENT ON COLUMN op_attempt.response_body IS 'bytes as they came, up to the response limit; those of several pages one after the other, a line feed between them';
COMMENT ON COLUMN op_attempt.error IS 'what the transport, or the client, said of a failure';
COMMENT ON COLUMN op_attempt.pages IS 'pages of a lookup''s list that were read; NULL: one, or none';
COMMENT ON COLUMN op_attempt.objects IS 'all objects of ours that a list showed, [{id, state, generation}]; NULL: not more than the one in external_id';

-- What people and rules did.
CREATE TABLE op_event
(
	id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	op_id  text COLLATE "C",
	at     timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
	actor  text NOT NULL,
	event  text NOT NULL,
	note   text
);

CREATE INDEX op_event_op_id ON op_event (op_id);

COMMENT ON TABLE op_event IS 'What people did to operations and providers: who, when, why.';
COMMENT ON COLUMN op_event.id IS 'in the order of recording';
COMMENT ON COLUMN op_event.op_id IS 'the operation; NULL: of a provider, or of the whole ledger';
COMMENT ON COLUMN op_event.at IS 'when';
COMMENT ON COLUMN op_event.actor IS 'the role that did it; op_ledger: the ledger itself';
COMMENT ON COLUMN op_event.event IS 'what was done: approve, cancel, resolve, provider_paused, purge, …';
COMMENT ON COLUMN op_event.note IS 'why, in the words of who did it; of a providers events its name comes first';

-- Whom we call, and the kinds of operations there.
CREATE TABLE op_profile
(
	name    text PRIMARY KEY,
	spec    jsonb NOT NULL,
	version bigint NOT NULL GENERATED ALWAYS AS (pg_catalog.jsonb_hash_extended(spec, 0)) STORED
);

COMMENT ON TABLE op_profile IS 'Shipped rules per kind of provider, with their sources; replaced by updates, and by nobody else.';
COMMENT ON COLUMN op_profile.name IS 'as op_provider_add() takes it';
COMMENT ON COLUMN op_profile.spec IS '"provider": fields of every provider of this kind; "actions": the actions that it brings';
COMMENT ON COLUMN op_profile.version IS 'changes with the content';

CREATE FUNCTION _op_shipped() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION _op_shipped() IS 'Refuses what no script of the extension writes.';

CREATE TRIGGER op_profile_shipped BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON op_profile
	FOR EACH STATEMENT EXECUTE FUNCTION _op_shipped();

CREATE TABLE op_provider
(
	name        text COLLATE "C" PRIMARY KEY,
	profile     text NOT NULL,
	base_url    text,
	secret      text,
	spec        jsonb NOT NULL DEFAULT '{}',
	paused      boolean NOT NULL DEFAULT false,
	paused_at   timestamptz,
	paused_note text,
	version     bigint NOT NULL GENERATED ALWAYS AS
	            (pg_catalog.jsonb_hash_extended(spec, 1)
	             # pg_catalog.hashtextextended(coalesce(profile, '') || E'\n' || coalesce(base_url, '')
	                                           || E'\n' || coalesce(secret, '') || E'\n' || coalesce(account, ''), 2)) STORED,
	paused_by   text,
	account     text
);

COMMENT ON TABLE op_provider IS 'Whom we call: address, name of the secret, what differs from the profile.';
COMMENT ON COLUMN op_provider.name IS 'as actions and events name it';
COMMENT ON COLUMN op_provider.profile IS 'the rules that it starts from, a row of op_profile';
COMMENT ON COLUMN op_provider.base_url IS 'scheme, host and port of every request';
COMMENT ON COLUMN op_provider.secret IS 'where the secret is read when sending: file:NAME or env:NAME; never the secret';
COMMENT ON COLUMN op_provider.account IS
	'a word for the account that the secret belongs to; NULL: the secret''s reference. Set with a new secret or not at all: op_provider_rotate() keeps it, another change of the secret makes it NULL';
COMMENT ON COLUMN op_provider.spec IS 'what differs from the profile';
COMMENT ON COLUMN op_provider.paused IS 'nothing is sent; lookups go on, slowly';
COMMENT ON COLUMN op_provider.paused_at IS 'since when';
COMMENT ON COLUMN op_provider.paused_note IS 'why; of an automatic pause the cause, and the operation that met it';
COMMENT ON COLUMN op_provider.version IS 'changes with the content';
COMMENT ON COLUMN op_provider.paused_by IS 'who called op_provider_pause(); NULL: the ledger itself, since the provider refuses our requests';

CREATE TABLE op_action
(
	name     text COLLATE "C" PRIMARY KEY,
	provider text COLLATE "C" NOT NULL,
	template text,
	spec     jsonb NOT NULL DEFAULT '{}',
	version  bigint NOT NULL GENERATED ALWAYS AS
	         (pg_catalog.jsonb_hash_extended(spec, 3)
	          # pg_catalog.hashtextextended(provider || E'\n' || coalesce(template, ''), 4)) STORED
);

COMMENT ON TABLE op_action IS 'A kind of operation at a provider: what is sent, and what an answer means.';
COMMENT ON COLUMN op_action.name IS 'as op_submit() takes it';
COMMENT ON COLUMN op_action.provider IS 'at whom, a row of op_provider';
COMMENT ON COLUMN op_action.template IS 'the action of the provider''s profile that this one starts from';
COMMENT ON COLUMN op_action.spec IS 'what differs from template and provider';
COMMENT ON COLUMN op_action.version IS 'changes with the content';

-- Sessions keep what they read of these tables until a row of one changes, whoever
-- writes it: replication, too, which fires triggers for rows only.
CREATE FUNCTION _op_config_changed() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION _op_config_changed() IS 'Tells all sessions that the configuration has changed.';

DO $$
DECLARE
	v_table text;
BEGIN
	FOREACH v_table IN ARRAY ARRAY['op_profile', 'op_provider', 'op_action'] LOOP
		EXECUTE format('CREATE TRIGGER %1$s_changed AFTER INSERT OR UPDATE OR DELETE ON %1$I'
		               ' FOR EACH ROW EXECUTE FUNCTION _op_config_changed()', v_table);
		EXECUTE format('CREATE TRIGGER %1$s_emptied AFTER TRUNCATE ON %1$I'
		               ' FOR EACH STATEMENT EXECUTE FUNCTION _op_config_changed()', v_table);
		EXECUTE format('ALTER TABLE %1$I ENABLE ALWAYS TRIGGER %1$s_changed', v_table);
		EXECUTE format('ALTER TABLE %1$I ENABLE ALWAYS TRIGGER %1$s_emptied', v_table);
	END LOOP;
END
$$;

-- Where this ledger may send from. A copy of the database brings its original's
-- row along and so does not send.
CREATE TABLE op_control
(
	system_identifier bigint NOT NULL,
	database_oid      oid NOT NULL,
	extension_oid     oid NOT NULL,
	timeline          integer NOT NULL,
	control_inode     bigint NOT NULL,
	adopted_at        timestamptz NOT NULL,
	adopted_by        text NOT NULL,
	retired           boolean NOT NULL DEFAULT false,
	PRIMARY KEY (system_identifier, database_oid, extension_oid)
);

COMMENT ON TABLE op_control IS 'The homes of this ledger: it sends only from the one that is not retired.';
COMMENT ON COLUMN op_control.system_identifier IS 'of the cluster';
COMMENT ON COLUMN op_control.database_oid IS 'of the database';
COMMENT ON COLUMN op_control.extension_oid IS 'of this CREATE EXTENSION';
COMMENT ON COLUMN op_control.timeline IS 'of the server when it became the home; a promotion changes it';
COMMENT ON COLUMN op_control.control_inode IS 'of global/pg_control: a copy of the files has another';
COMMENT ON COLUMN op_control.adopted_at IS 'when this became the home';
COMMENT ON COLUMN op_control.adopted_by IS 'who made it so';
COMMENT ON COLUMN op_control.retired IS 'it is the home no more; it never sends again';

-- One incarnation of a worker each.
CREATE SEQUENCE op_epoch;

-- One statement each: several in one SELECT update the same row twice.
SELECT pg_catalog.pg_extension_config_dump('op_operation', '');
SELECT pg_catalog.pg_extension_config_dump('op_request', '');
SELECT pg_catalog.pg_extension_config_dump('op_attempt', '');
SELECT pg_catalog.pg_extension_config_dump('op_event', '');
SELECT pg_catalog.pg_extension_config_dump('op_event_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('op_provider', '');
SELECT pg_catalog.pg_extension_config_dump('op_action', '');
SELECT pg_catalog.pg_extension_config_dump('op_control', '');
