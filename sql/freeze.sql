-- The request of an operation, byte for byte; and arguments that are refused.
\pset null '-'
\set SHOW_CONTEXT never
\set base '{"base_url": "https://api.example.com/v2/", "args": {"id": {"type": "text"}, "amount": {"type": "integer", "min": 1, "max": 1000}, "note": {"type": "text", "optional": true}}, "request": {"path": "/x"}}'

-- A patch over the spec above, frozen for arguments. Bodies are shown as text.
CREATE FUNCTION pg_temp.frozen(spec jsonb, op_id text, generation int, args jsonb, OUT key text, OUT request text, OUT headers text, OUT body text) LANGUAGE sql AS $$
	SELECT f.key, f.method || ' ' || f.url, array_to_string(f.headers, ' | '), convert_from(f.body, 'UTF8')
	FROM _op_freeze(spec, op_id, generation, args, NULL) f
$$;
\set args '{"id": "a/b?c#d e&f=ü", "amount": 380}'

-- 1. Where an argument stands decides how it is written; it never leaves its place.
SELECT p AS request, f.request, f.body
FROM (VALUES
	('{"path": "/{id}"}'),
	('{"path": "/orders/{id}/refund"}'),
	('{"path": "/x", "query": {"q": "{id}", "n": "{amount}", "note": "{note}"}}'),
	('{"path": "/x", "query": {"note": "{note}"}}'),
	('{"path": "/x", "form": {"q": "{id}", "n": "{amount}", "note": "{note}", "m": {"op": "{marker}", "deep": {"a": 1}}, "l": [1, {"b": true}]}}'),
	('{"path": "/x", "json": {"q": "{id}", "n": "{amount}", "t": "n={amount}", "note": "{note}", "m": {"op": "{marker}"}, "l": ["{id}", 1.50, null]}}'),
	('{"path": "/x", "json": "{amount}"}'),
	('{"path": "/x", "method": "DELETE"}')) c (p),
	pg_temp.frozen(_op_merge(:'base', jsonb_build_object('request', p::jsonb)), 'refund-1', 1, :'args') f;

-- What an argument holds is data: braces, pointers, nesting.
SELECT f.request, f.body
FROM (VALUES ('{"id": "{amount}", "amount": 1}'::jsonb), ('{"id": "}{", "amount": 1}'), ('{"id": "//evil.example", "amount": 1}'), ('{"id": "@evil.example", "amount": 1}'), ('{"id": "%2e%2e", "amount": 1}'), ('{"id": "a\\b", "amount": 1}'), ('{"id": "http://169.254.169.254/", "amount": 1}')) c (a),
	pg_temp.frozen(_op_merge(:'base', '{"request": {"path": "/{id}", "json": {"q": "{id}"}}}'), 'refund-1', 1, a) f;
SELECT * FROM pg_temp.frozen(_op_merge(:'base', '{"request": {"path": "/x/{id}"}}'), 'refund-1', 1, '{"id": "..", "amount": 1}');
SELECT * FROM pg_temp.frozen(_op_merge(:'base', '{"request": {"path": "/x/{id}"}}'), 'refund-1', 1, '{"id": "", "amount": 1}');

-- The same bytes whatever the order, the white space and the settings were.
SET extra_float_digits = -15;
SET DateStyle = 'German';
SELECT count(DISTINCT f.body), min(encode(f.body, 'escape')) AS body
FROM (VALUES ('{"id": "x", "amount": 100}'::jsonb), ('{"amount":100,  "id":"x"}'), ('{"amount": 7, "id": "\u0078", "amount": 100}')) c (a),
	_op_freeze(_op_merge(:'base', '{"request": {"json": {"id": "{id}", "amount": "{amount}", "f": 0.1, "e": 1e2, "d": 10.00}}}'), 'refund-1', 1, a, NULL) f;
RESET extra_float_digits;
RESET DateStyle;

-- 2. Keys: a function of namespace, op id and generation, in the provider's format.
SELECT k AS key_spec, op_id, generation, f.key, f.headers, f.body
FROM (VALUES
	('{}', 'refund-1', 1),
	('{}', 'refund-1', 2),
	('{"name": "PayPal-Request-Id"}', 'refund-1', 1),
	('{"format": "quoted"}', 'refund-1', 1),
	('{"format": "uuid"}', 'refund-1', 1),
	('{"format": "uuid"}', 'refund-1', 2),
	('{"format": "sha256"}', 'refund-1', 1),
	('{"max": 40}', 'refund of all the lines of the order that Ms. Jones placed', 1),
	('{}', 'rückerstattung-1', 1),
	('{"in": "body", "name": "/idempotency_key"}', 'refund-1', 1),
	('{"in": "body", "name": "/meta/a~1b"}', 'refund-1', 1),
	('{"in": "none"}', 'refund-1', 1)) c (k, op_id, generation),
	pg_temp.frozen(_op_merge(:'base', jsonb_build_object('key', k::jsonb) || '{"request": {"path": "/x", "json": {"meta": {}}}}'), op_id, generation, :'args') f;
SELECT f.key, f.body FROM pg_temp.frozen(_op_merge(:'base', '{"namespace": "eu-", "key": {}, "request": {"form": {"ref": "{marker}", "op": "{op_id}"}}}'), 'refund-1', 3, :'args') f;
SELECT f.key, f.body FROM pg_temp.frozen(_op_merge(:'base', '{"key": {"in": "body", "name": "/k"}, "request": {"form": {"a": 1}}}'), 'refund-1', 1, :'args') f;

-- 3. Headers: the spec's own, the body's type, the trace, the key. Never the secret.
SELECT f.headers FROM (VALUES
	('{}'),
	('{"request": {"form": {}}}'),
	('{"request": {"json": {}}}'),
	('{"request": {"json": {}}, "headers": {"content-type": "application/vnd.example+json"}}'),
	('{"headers": {"X-Note": "{note}", "X-Amount": "amount {amount}", "X-Marker": "{marker}", "X-Off": null}}'),
	('{"secret": "file:example.key", "auth": {"scheme": "bearer"}}')) c (p),
	pg_temp.frozen(_op_merge(:'base', p::jsonb), 'refund-1', 2, '{"id": "x", "amount": 5}') f;
SELECT headers FROM _op_freeze(:'base', 'refund-1', 1, :'args', '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01');

-- CR, LF and control characters are refused, by the name of the header alone.
SELECT headers FROM pg_temp.frozen(_op_merge(:'base', '{"headers": {"X-Id": "{id}"}}'), 'refund-1', 1, '{"id": "x\r\nX-Evil: 1", "amount": 1}');
SELECT headers FROM pg_temp.frozen(_op_merge(:'base', '{"headers": {"X-Id": "a {id}"}}'), 'refund-1', 1, '{"id": "x\ny", "amount": 1}');
SELECT headers FROM pg_temp.frozen(_op_merge(:'base', '{"headers": {"X-Id": "a {id}"}}'), 'refund-1', 1, '{"id": "x\ry", "amount": 1}');
SELECT headers FROM pg_temp.frozen(_op_merge(:'base', '{"headers": {"X-Id": "a {id}"}}'), 'refund-1', 1, '{"id": "x\u0007y", "amount": 1}');
SELECT headers FROM pg_temp.frozen(_op_merge(:'base', '{"headers": {"X-Id": "{id}"}}'), 'refund-1', 1, '{"id": "", "amount": 1}');
SELECT headers FROM _op_freeze(:'base', 'refund-1', 1, :'args', E'00-aa\r\nX-Evil: 1');
SELECT headers FROM pg_temp.frozen(_op_merge(:'base', '{"headers": {"X-Id": "{id}"}}'), 'refund-1', 1, '{"id": "ü and\ttab", "amount": 1}');

-- 4. Arguments that are refused.
CREATE FUNCTION pg_temp.refused(spec jsonb, args jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	v_state text; v_message text; v_detail text; v_hint text;
BEGIN
	PERFORM _op_freeze(spec, 'refund-1', 1, args, NULL);
	RETURN 'accepted';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS v_state = RETURNED_SQLSTATE, v_message = MESSAGE_TEXT, v_detail = PG_EXCEPTION_DETAIL, v_hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(' / ', v_state, v_message, nullif(v_detail, ''), nullif(v_hint, ''));
END $$;
SELECT a AS args, pg_temp.refused(:'base', a)
FROM unnest(ARRAY['{"id": "x", "amount": 5}', '{"id": "x", "amount": 5, "note": "n"}', '{}', '{"id": "x"}', '{"id": "x", "amout": 5}', '{"id": "x", "amount": 5, "colour": "red"}', '{"id": 7, "amount": 5}', '{"id": null, "amount": 5}', '{"id": "x", "amount": "5"}', '{"id": "x", "amount": 5.5}', '{"id": "x", "amount": 5.0}', '{"id": "x", "amount": true}', '{"id": "x", "amount": 0}', '{"id": "x", "amount": 1001}', '{"id": "x", "amount": 1000}', '{"id": "x", "amount": 5, "note": null}', '[]', '"x"']::jsonb[]) a;

SELECT t AS arg, v AS value, pg_temp.refused(jsonb_build_object('base_url', 'https://api.example.com', 'request', '{"path": "/x", "json": {"v": "{v}"}}'::jsonb, 'args', jsonb_build_object('v', t)), jsonb_build_object('v', v))
FROM (VALUES
	('{"type": "text", "min": 2, "max": 3}'::jsonb, '"ü"'::jsonb), ('{"type": "text", "min": 2, "max": 3}', '"üü"'), ('{"type": "text", "min": 2, "max": 3}', '"üüüü"'),
	('{"type": "number", "min": 0.5}', '0.49'), ('{"type": "number", "min": 0.5}', '0.50'), ('{"type": "number"}', '"1"'), ('{"type": "number"}', '1e30'),
	('{"type": "integer"}', '-7'), ('{"type": "integer"}', '123456789012345678901234567890'), ('{"type": "integer"}', '1e3'),
	('{"type": "boolean"}', 'false'), ('{"type": "boolean"}', '"false"'),
	('{"type": "object"}', '{}'), ('{"type": "object"}', '[]'), ('{"type": "array", "max": 1}', '[1]'), ('{"type": "array", "max": 1}', '[1, 2]'), ('{"type": "array"}', '{}'),
	('{"type": "any"}', 'null'), ('{"type": "any"}', '[{}]'),
	('{"type": "text", "one_of": ["a", "b"]}', '"a"'), ('{"type": "text", "one_of": ["a", "b"]}', '"c"'), ('{"type": "any", "one_of": [1, true, null]}', '1.0'), ('{"type": "any", "one_of": [1, true, null]}', 'null'), ('{"type": "any", "one_of": [1, true]}', '[1]')) c (t, v);
SELECT pg_temp.refused('{"base_url": "https://api.example.com", "request": {"path": "/x"}}', '{"a": 1}');

-- A value that is no text cannot stand in text.
SELECT pg_temp.refused(_op_merge(:'base', jsonb_build_object('args', '{"o": {"type": "any"}}'::jsonb, 'request', p)), '{"id": "x", "amount": 1, "o": {"a": 1}}')
FROM unnest(ARRAY['{"path": "/{o}"}', '{"query": {"a": "o={o}"}}', '{"json": {"a": "{o}"}}', '{"form": {"a": "{o}"}}']::jsonb[]) p;

-- The op id is checked as at submit.
SELECT * FROM _op_freeze(:'base', 'refund-1~2', 1, :'args', NULL);
SELECT * FROM _op_freeze(:'base', '', 1, :'args', NULL);

-- 5. The shipped profiles: what goes out.
SELECT a.key AS action, f.*
FROM op_profile p, jsonb_each(p.spec->'actions') a, (VALUES
	('refund', '{"payment_intent": "pi_3Q", "amount": 38000}'::jsonb),
	('refund', '{"charge": "ch_1", "amount": 380, "reason": "duplicate"}'),
	('charge', '{"amount": 500, "currency": "eur", "source": "tok_visa", "description": "order 7 & 8"}'),
	('payment_intent', '{"amount": 500, "currency": "eur", "customer": "cus_1"}')) c (action, args),
	pg_temp.frozen(_op_merge(p.spec->'provider', a.value), 'refund-1043-li_2', 1, c.args) f
WHERE p.name = 'stripe' AND a.key = c.action ORDER BY 1, c.args;
SELECT f.*
FROM op_profile p, pg_temp.frozen(_op_merge(_op_merge(p.spec->'provider', '{"base_url": "https://api.example.com/v1"}'), p.spec->'actions'->'post'), 'order-7', 1, '{"path": "orders", "body": {"sku": "a-1", "n": 2}}') f
WHERE p.name = 'http';
