-- Is a delivery genuine? Fixed vectors; those marked * were published by the provider.
SET timezone = 'UTC';
\set VERBOSITY terse
\set SHOW_CONTEXT never

CREATE FUNCTION pg_temp.check(webhook jsonb, secret text, headers jsonb, body bytea, epoch bigint) RETURNS text LANGUAGE sql AS $$
	SELECT _op_webhook_check(webhook || '{"secret": "file:x"}', secret, headers, body, to_timestamp(epoch))
$$;

CREATE TEMP TABLE vector (n int, what text, webhook jsonb, secret text, headers jsonb, body bytea, epoch bigint);
INSERT INTO vector VALUES
	(1, 'stripe', '{"scheme": "stripe"}', 'whsec_test_secret',
		'{"Stripe-Signature": "t=1767268800,v1=02a270ccb9f6a421fbdf4971d09e9c41b26bfd53152d7d1ca997828e0a922d7c"}',
		'{"id": "evt_1", "type": "refund.updated"}', 1767268800),
	(2, 'standard *', '{"scheme": "standard"}', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
		'{"webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": "1614265330", "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="}',
		'{"test": 2432232314}', 1614265330),
	(3, 'svix', '{"scheme": "standard", "header": "svix-signature", "timestamp": "header:svix-timestamp", "id": "header:svix-id"}', 'MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
		'{"svix-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "svix-timestamp": "1614265330", "svix-signature": "v1a,abc v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="}',
		'{"test": 2432232314}', 1614265330),
	(4, 'github *', '{"scheme": "github"}', 'It''s a Secret to Everybody',
		'{"x-hub-signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"}', 'Hello, World!', 0),
	(5, 'square *', '{"scheme": "square", "url": "https://example.com/webhook"}', 'asdf1234',
		'{"X-Square-HmacSha256-Signature": "2kRE5qRU2tR+tBGlDwMEw2avJ7QM4ikPYD/PJ3bd9Og="}', '{"hello":"world"}', 0),
	(6, 'slack *', '{"scheme": "hmac", "header": "X-Slack-Signature", "prefix": "v0=", "timestamp": "header:X-Slack-Request-Timestamp", "payload": "v0:{timestamp}:{body}"}', '8f742231b10e8888abcd99yyyzzz85a5',
		'{"X-Slack-Request-Timestamp": "1531420618", "X-Slack-Signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"}',
		'token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c', 1531420618),
	(7, 'sha1, base64', '{"scheme": "hmac", "header": "X-Signature", "hash": "sha1", "encoding": "base64"}', 'k', '{"X-Signature": "oigudkjoyvfSJNZTHc2VwoCKXYk="}', 'body', 0),
	(8, 'sha512, key in hex, bytes', '{"scheme": "hmac", "header": "X-Signature", "hash": "sha512", "key": "hex"}', '00fF10',
		'{"X-Signature": "8d8f1d7bd31d556edcc097677e4dc7dd916d087582260e4bb49ea72043ac72050763f42ca7f6a7e182de2b9eb33311c46ec3a53606a404d27d6f6b2af2df7292"}', '\x6100ff62', 0);

-- Genuine; with another body, another secret, another moment, and without its headers.
SELECT what, pg_temp.check(webhook, secret, headers, body, epoch) AS genuine,
	pg_temp.check(webhook, secret, headers, body || '\x20', epoch) AS other_body,
	pg_temp.check(webhook, CASE n WHEN 8 THEN '00ff11' WHEN 2 THEN 'MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSx' WHEN 3 THEN 'MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSx' ELSE 'x' || secret END, headers, body, epoch) AS other_secret,
	pg_temp.check(webhook, secret, headers, body, epoch + 300) AS late, pg_temp.check(webhook, secret, headers, body, epoch + 301) AS later,
	pg_temp.check(webhook, secret, headers, body, epoch - 301) AS early,
	pg_temp.check(webhook, secret, '{}', body, epoch) AS no_headers
FROM vector ORDER BY n;

-- A tolerance of one's own.
SELECT pg_temp.check(webhook || '{"tolerance": "1 h"}', secret, headers, body, epoch + 3600), pg_temp.check(webhook || '{"tolerance": "1 s"}', secret, headers, body, epoch + 2) FROM vector WHERE n = 1;

-- What a signature's header may look like.
\set good 'v1=02a270ccb9f6a421fbdf4971d09e9c41b26bfd53152d7d1ca997828e0a922d7c'
SELECT replace(h, :'good', 'GOOD') AS header, pg_temp.check(webhook, secret, jsonb_build_object('stripe-signature', h), body, epoch) FROM vector, unnest(ARRAY[
	't=1767268800, ' || :'good',
	:'good' || ',t=1767268800',
	't=1767268800,v1=4c369e77d55ec0eb1f8b4b92ca83dea1fec077a831355b4e15d9070f824526ad,' || :'good',
	't=1767268800,' || :'good' || ',v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39',
	't=1767268800,v0=02a270ccb9f6a421fbdf4971d09e9c41b26bfd53152d7d1ca997828e0a922d7c',
	't=1767268801,' || :'good',
	't=,' || :'good', 't=-1,' || :'good', 't=1767268800 ,' || :'good', :'good',
	't=1767268800,' || left(:'good', -1), 't=1767268800,' || :'good' || '0', 't=1767268800,v1=', 't=1767268800', 't=1767268800,' || upper(:'good'),
	repeat('v1=00,', 20) || 't=1767268800,' || :'good',
	'', ',,,', repeat('x', 500)]) h WHERE n = 1;
SELECT pg_temp.check(webhook, secret, h, body, epoch) FROM vector, unnest(ARRAY[
	'{"stripe-signature": ["t=1767268800,v1=02a270ccb9f6a421fbdf4971d09e9c41b26bfd53152d7d1ca997828e0a922d7c"]}',
	'{"stripe-signature": 7}', '{"stripe-signature": {"a": "b"}}', '{"stripe-signature": null}', '{"Stripe-Signature2": "x"}']::jsonb[]) h WHERE n = 1;

-- Secrets that are not written as they should be.
SELECT s AS secret, pg_temp.check(webhook || jsonb_build_object('key', k), s, headers, body, epoch) FROM vector, (VALUES
	('base64', 'whsec_***'), ('base64', 'whsec_'), ('hex', '0'), ('hex', '0g'), ('raw', repeat('k', 1025))) v (k, s) WHERE n = 1 AND length(s) < 100;
SELECT pg_temp.check(webhook, repeat('k', 1025), headers, body, epoch) FROM vector WHERE n = 1;

-- What a provider's spec may say.
CREATE FUNCTION pg_temp.said(webhook jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	v_message text; v_hint text;
BEGIN
	PERFORM _op_check_spec('x', jsonb_build_object('base_url', 'https://api.example.com', 'request', '{"path": "/x"}'::jsonb, 'key', '{"ttl": "1 h", "stores": "all"}'::jsonb, 'object', '{"id": "$.id", "marker": "$.m"}'::jsonb, 'webhook', webhook));
	RETURN webhook::text || E'\n  accepted';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS v_message = MESSAGE_TEXT, v_hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(E'\n', webhook::text, '  ' || SQLSTATE || ': ' || v_message, '  HINT: ' || nullif(v_hint, ''));
END $$;
\pset tuples_only on
SELECT pg_temp.said(w) FROM unnest(ARRAY[
	'{"scheme": "stripe", "secret": "file:hook.key", "object": "$.data.object", "id": "$.id", "type": "$.type", "if": "$.livemode == true", "tolerance": "10 min"}',
	'{"scheme": "standard", "secret": "env:HOOK"}',
	'{"secret": "file:x"}',
	'{"scheme": "strip", "secret": "file:x"}',
	'{"scheme": "stripe", "secret": "whsec_4711"}',
	'{"scheme": "square", "secret": "file:x"}',
	'{"scheme": "hmac", "secret": "file:x"}',
	'{"scheme": "hmac", "secret": "file:x", "header": "X-Signature", "payload": "{timestamp}"}',
	'{"scheme": "hmac", "secret": "file:x", "header": "X-Signature", "payload": "{timestamp}.{body}"}',
	'{"scheme": "hmac", "secret": "file:x", "header": "X-Signature", "timestamp": "header:X-Time"}',
	'{"scheme": "hmac", "secret": "file:x", "header": "X-Signature", "timestamp": "X-Time"}',
	'{"scheme": "hmac", "secret": "file:x", "header": "X-Signature", "payload": "{bdy}"}',
	'{"scheme": "hmac", "secret": "file:x", "header": "X-Signature", "payload": "{id}{body}"}',
	'{"scheme": "hmac", "secret": "file:x", "header": "X-Signature", "id": "event"}',
	'{"scheme": "hmac", "secret": "file:x", "header": "X Signature"}',
	'{"scheme": "hmac", "secret": "file:x", "header": "X-Signature", "hash": "md5"}',
	'{"scheme": "stripe", "secret": "file:x", "object": "data.object"}',
	'{"scheme": "stripe", "secret": "file:x", "tolerance": "2 d"}',
	'{"scheme": "stripe", "sercet": "file:x"}']::jsonb[]) w;
\pset tuples_only off

-- op_webhook() itself: what it refuses. test/t/084_webhook.pl has the rest.
\set VERBOSITY default
SELECT op_webhook('nobody', '{}', '');
SELECT op_webhook('shop', '{}', '');
SELECT op_webhook('shop', NULL, '');
SELECT op_webhook('shop', '[]', '');
