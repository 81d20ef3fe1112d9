-- The whole table of decisions, for four kinds of provider: from what came over the
-- wire to what follows. The provider's spec decides, not code.
SET timezone = 'UTC';
SET DateStyle = 'ISO';

CREATE FUNCTION pg_temp.now() RETURNS timestamptz LANGUAGE sql IMMUTABLE
	RETURN '2026-01-01 12:00:00+00'::timestamptz;
CREATE FUNCTION pg_temp.at(s numeric) RETURNS text LANGUAGE sql IMMUTABLE
	RETURN (pg_temp.now() + s * interval '1 s')::text;

\set spec '{"object": {"id": "$.id", "marker": "$.op", "pending": "$.status == \\"pending\\"", "failed": "$.status == \\"failed\\""}, "retry": {"patience": "1 d", "jitter": 0}, "lookup": {"path": "/x", "items": "$.data[*]", "more": "$.more == true"}, "rules": [{"if": {"status": 409, "body": "$.code == \\"in_use\\""}, "then": "in_progress"}, {"if": {"status": 400, "body": "$.code == \\"other_parameters\\""}, "then": "mismatch"}, {"if": {"status": 400, "body": "$.code == \\"already_refunded\\""}, "then": "already_done"}, {"if": {"status": 402}, "then": "rejected", "reason": "declined", "keyed": true}]}'

CREATE TEMP TABLE provider (n int, kind text, spec jsonb);
INSERT INTO provider SELECT n, kind, _op_merge(:'spec', key) FROM (VALUES
	(1, 'stores all', '{"key": {"ttl": "24 h", "stores": "all", "replayed": "header:Replayed"}}'::jsonb),
	(2, 'stores success', '{"key": {"ttl": "24 h", "stores": "success", "replayed": "header:Replayed"}}'),
	(3, 'no keys', '{"key": {"in": "none"}}'),
	(4, 'one-hour keys', '{"key": {"ttl": "1 h", "stores": "all", "replayed": "header:Replayed"}}')) p (n, kind, key);
SELECT kind, p->>'ttl' AS ttl, p->>'stores' AS stores, p->>'guards' AS guards FROM provider, _op_promises(spec) p ORDER BY n;

-- What came back. Sends first, then lookups.
CREATE TEMP TABLE exchange (n int, kind text, what text, evidence jsonb);
INSERT INTO exchange SELECT row_number() OVER (), k, w, e::jsonb FROM (VALUES
	('send', 'our object', '{"status": 200, "body": {"id": "re_1", "op": "refund-1"}}'),
	('send', 'our object, replayed', '{"status": 200, "headers": {"Replayed": "true"}, "body": {"id": "re_1", "op": "refund-1"}}'),
	('send', 'our object, not final', '{"status": 200, "body": {"id": "re_1", "op": "refund-1", "status": "pending"}}'),
	('send', '202', '{"status": 202, "body": ""}'),
	('send', 'our object, failed', '{"status": 200, "body": {"id": "re_1", "op": "refund-1", "status": "failed"}}'),
	('send', 'another''s object', '{"status": 200, "body": {"id": "re_1", "op": "refund-2"}}'),
	('send', 'no connection', '{"sent": false, "phase": "connect", "curl_code": 7}'),
	('send', '429', '{"status": 429, "retry_after": 30}'),
	('send', '429, tomorrow', '{"status": 429, "retry_after": 86400}'),
	('send', '422', '{"status": 422}'),
	('send', '422, replayed', '{"status": 422, "headers": {"Replayed": "true"}}'),
	('send', '402, by the rule keyed', '{"status": 402}'),
	('send', '401', '{"status": 401}'),
	('send', 'key in use', '{"status": 409, "body": {"code": "in_use"}}'),
	('send', 'already refunded', '{"status": 400, "body": {"code": "already_refunded"}}'),
	('send', 'other parameters', '{"status": 400, "body": {"code": "other_parameters"}}'),
	('send', '500', '{"status": 500}'),
	('send', '500, replayed', '{"status": 500, "headers": {"Replayed": "true"}}'),
	('send', 'timeout', '{"phase": "sent", "curl_code": 28}'),
	('lookup', 'found', '{"status": 200, "body": {"data": [{"id": "re_1", "op": "refund-1"}]}}'),
	('lookup', 'found, not final', '{"status": 200, "body": {"data": [{"id": "re_1", "op": "refund-1", "status": "pending"}]}}'),
	('lookup', 'found, failed', '{"status": 200, "body": {"data": [{"id": "re_1", "op": "refund-1", "status": "failed"}]}}'),
	('lookup', 'two of ours', '{"status": 200, "body": {"data": [{"id": "re_1", "op": "refund-1"}, {"id": "re_2", "op": "refund-1"}]}}'),
	('lookup', 'none of ours', '{"status": 200, "body": {"data": [{"id": "re_1", "op": "refund-2"}]}}'),
	('lookup', 'more pages', '{"status": 200, "body": {"data": [], "more": true}}'),
	('lookup', '404', '{"status": 404}')) e (k, w, e);

-- What the operation went through: seconds since its first and its last claim.
CREATE TEMP TABLE operation (n int, story text, o jsonb);
INSERT INTO operation SELECT n, story, o || jsonb_build_object('tries', tries, 'attempts', tries, 'trying_since', pg_temp.at(-first), 'first_sent_at', pg_temp.at(-first), 'last_sent_at', pg_temp.at(-last)) FROM (VALUES
	(1, 'sent for the first time', 1, 10, 10, '{"state": "submitted"}'::jsonb),
	(2, 'sent again', 2, 60, 10, '{"state": "submitted", "tainted": true}'),
	(3, 'sent again, the hour is nearly over', 2, 3540, 10, '{"state": "submitted", "tainted": true}'),
	(4, 'unknown, not quiet', 1, 10, 10, '{"state": "unknown", "tainted": true}'),
	(5, 'unknown, quiet', 1, 100, 100, '{"state": "unknown", "tainted": true}'),
	(6, 'unknown, quiet, the hour is over', 1, 3700, 3700, '{"state": "unknown", "tainted": true}'),
	(7, 'unknown, quiet, for three days', 2, 260000, 259300, '{"state": "unknown", "tainted": true}')) s (n, story, tries, first, last, o);

-- A decision reads: state, next step and when, [seal], ! contradiction noted, (reason).
CREATE FUNCTION pg_temp.follows(spec jsonb, o jsonb, kind text, evidence jsonb) RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws(' ', d.state, d.step, rtrim(to_char(extract(epoch FROM d.due_at - pg_temp.now()), 'FMSG999999990.9'), '.'),
		'[' || d.sealed || ']', CASE WHEN d.contradiction THEN '!' END, '(' || d.reason || ')')
	FROM _op_classify(spec, evidence || jsonb_build_object('kind', kind, 'op_id', 'refund-1', 'finished_at', pg_temp.now())) c,
		_op_decide(o, _op_promises(spec), jsonb_build_object('verdict', c.verdict, 'kind', kind, 'keyed', c.keyed, 'retry_at', c.retry_at, 'unmarked', c.unmarked), pg_temp.now()) d
$$;
CREATE FUNCTION pg_temp.story(which int) RETURNS TABLE (exchange text, verdict text, kind text, follows text, n int) LANGUAGE sql AS $$
	SELECT e.what, c.verdict, p.kind, pg_temp.follows(p.spec, o.o, e.kind, e.evidence), p.n
	FROM operation o, exchange e, provider p,
		_op_classify((SELECT spec FROM provider q WHERE q.n = 1), e.evidence || jsonb_build_object('kind', e.kind, 'op_id', 'refund-1')) c
	WHERE o.n = which AND e.kind = CASE WHEN o.n <= 3 THEN 'send' ELSE 'lookup' END
	ORDER BY e.n, p.n
$$;

\echo Sent for the first time
SELECT exchange, verdict, kind, follows, n FROM pg_temp.story(1) \crosstabview exchange kind follows n
\echo Sent again: another request may have worked
SELECT exchange, verdict, kind, follows, n FROM pg_temp.story(2) \crosstabview exchange kind follows n
\echo Sent again, 59 minutes after the first time
SELECT exchange, verdict, kind, follows, n FROM pg_temp.story(3) \crosstabview exchange kind follows n
\echo Unknown: what was sent may still arise
SELECT exchange, verdict, kind, follows, n FROM pg_temp.story(4) \crosstabview exchange kind follows n
\echo Unknown: nothing can arise any more
SELECT exchange, verdict, kind, follows, n FROM pg_temp.story(5) \crosstabview exchange kind follows n
\echo Unknown: nothing can arise any more, more than an hour ago
SELECT exchange, verdict, kind, follows, n FROM pg_temp.story(6) \crosstabview exchange kind follows n
\echo Unknown: for longer than anybody wants to wait
SELECT exchange, verdict, kind, follows, n FROM pg_temp.story(7) \crosstabview exchange kind follows n

-- What must hold in every one of these rows.
CREATE TEMP VIEW row AS
SELECT o.n AS story, e.what, p.kind, e.evidence, d.*
FROM operation o, exchange e, provider p,
	_op_classify(p.spec, e.evidence || jsonb_build_object('kind', e.kind, 'op_id', 'refund-1', 'finished_at', pg_temp.now())) c,
	_op_decide(o.o, _op_promises(p.spec), jsonb_build_object('verdict', c.verdict, 'kind', e.kind, 'keyed', c.keyed, 'retry_at', c.retry_at, 'unmarked', c.unmarked), pg_temp.now()) d
WHERE e.kind = CASE WHEN o.n <= 3 THEN 'send' ELSE 'lookup' END;
SELECT count(*) AS rows, count(*) FILTER (WHERE step = 'send') AS sends FROM row;
\echo Never sent again: after anything but proof that it did nothing, where there are no keys
SELECT story, what, state, step FROM row WHERE kind = 'no keys' AND step = 'send' AND story <> 1;
\echo A resend arrives while the key is remembered: it leaves so early that the larger of timeout and flight, and the margin, fit
SELECT story, what, kind, due_at FROM row WHERE step = 'send' AND state = 'unknown' AND kind = 'one-hour keys'
	AND due_at + interval '65 s' >= (SELECT (o->>'first_sent_at')::timestamptz FROM operation WHERE n = row.story) + interval '1 h';
\echo Failed only by proof
SELECT story, what, kind FROM row WHERE state = 'failed' AND story > 1 ORDER BY story, what, kind;
\echo What has not ended has a next step, or a person has it
SELECT story, what, kind, state FROM row WHERE state NOT IN ('confirmed', 'failed', 'review') AND step IS NULL;
