-- What one exchange proves: evidence -> verdict (doc/reference.md). No socket.
SET timezone = 'UTC';
SET DateStyle = 'ISO';
\pset null '-'
\set spec '{"object": {"id": "$.id", "marker": "$.meta.op_id", "pending": "$.status == \\"pending\\"", "failed": "$.status == \\"failed\\""}, "key": {"replayed": "header:Idempotent-Replayed"}}'
\set ours '{"op_id": "refund-1"}'

-- 1. No request left: not sent, whatever curl says; our own fault: blocked.
SELECT e AS evidence, verdict, reason
FROM (VALUES
	('{"phase": "none"}'),
	('{"too_late": true}'),
	('{"phase": "resolve", "curl_code": 6}'),
	('{"phase": "resolve", "curl_code": 28}'),
	('{"phase": "connect", "curl_code": 7}'),
	('{"phase": "connect", "curl_code": 28}'),
	('{"phase": "connect", "curl_code": 56}'),
	('{"curl_code": 5}'),
	('{"curl_code": 97}'),
	('{"curl_code": 3}'),
	('{"phase": "tls", "curl_code": 35}'),
	('{"phase": "tls", "curl_code": 28}'),
	('{"phase": "tls", "curl_code": 60}'),
	('{"phase": "tls", "curl_code": 77}'),
	('{"phase": "sent", "curl_code": 28}')) c (e),
	_op_classify(:'spec', e::jsonb || '{"sent": false}') v;

-- 2. A request left and no whole answer came: unknown, always.
SELECT e AS evidence, verdict, reason, external_id
FROM (VALUES
	('{}'),
	('{"curl_code": 28}'),
	('{"curl_code": 52}'),
	('{"curl_code": 55}'),
	('{"curl_code": 56}'),
	('{"curl_code": 42}'),
	('{"curl_code": 35}'),
	('{"curl_code": 28, "status": 100, "phase": "head"}'),
	('{"status": 103}'),
	('{"curl_code": 28, "status": 200, "phase": "head"}'),
	('{"curl_code": 18, "status": 200, "phase": "head", "body": {"id": "re_1", "meta": {"op_id": "refund-1"}}}'),
	('{"curl_code": 56, "status": 422, "phase": "head"}'),
	('{"curl_code": 28, "status": 429, "phase": "head"}'),
	('{"status": 200, "phase": "head"}')) c (e),
	_op_classify(:'spec', :'ours'::jsonb || e::jsonb) v;

-- 3. Statuses that no rule knows better.
SELECT verdict, string_agg(s::text, ' ' ORDER BY s) AS statuses
FROM unnest('{200,201,202,204,300,301,302,303,304,305,307,308,400,401,402,403,404,405,406,407,408,409,410,411,412,413,414,415,418,421,422,423,424,425,426,428,429,431,451,500,501,502,503,504,507,508,511,520,521,522,523,524,529,599}'::int[]) s,
	_op_classify(:'spec', jsonb_build_object('status', s, 'body', '<html>')) v
GROUP BY verdict ORDER BY min(s);
SELECT s AS status, verdict, reason, keyed
FROM unnest('{302,307,400,429,502,503}'::int[]) s,
	_op_classify('{}', jsonb_build_object('status', s)) v;

-- 4. Success: an id, our marker, a final status.
SELECT e AS answer, verdict, reason, external_id
FROM (VALUES
	('{"body": {"id": "re_1", "status": "succeeded", "meta": {"op_id": "refund-1"}}}'),
	('{"body": {"id": "re_1", "status": "pending", "meta": {"op_id": "refund-1"}}}'),
	('{"body": {"id": "re_1", "status": "failed", "meta": {"op_id": "refund-1"}}}'),
	('{"body": {"id": 4711, "meta": {"op_id": "refund-1"}}}'),
	('{"status": 202, "body": {"id": "re_1", "meta": {"op_id": "refund-1"}}}'),
	('{"status": 202, "body": ""}'),
	('{"status": 202, "body": "<html>"}'),
	('{"body": {"id": "re_2", "meta": {"op_id": "refund-2"}}}'),
	('{"body": {"id": "re_2", "meta": {"op_id": "refund-1~2"}}}'),
	('{"body": {"id": "re_2", "meta": {"op_id": ["refund-1"]}}}'),
	('{"body": {"id": "re_2"}}'),
	('{"body": {"id": "", "meta": {"op_id": "refund-1"}}}'),
	('{"body": {"id": null, "meta": {"op_id": "refund-1"}}}'),
	('{"body": {"id": {"a": 1}, "meta": {"op_id": "refund-1"}}}'),
	('{"body": {"meta": {"op_id": "refund-1"}}}'),
	('{"body": {"error": {"code": "throttled"}}}'),
	('{"body": []}'),
	('{"body": "null"}'),
	('{"body": "\"re_1\""}'),
	('{"body": ""}'),
	('{"body": "<html>please sign in</html>"}'),
	('{"body": "{\"id\": \"re_1\", \"meta\": {\"op_id\": \"refund-1\"}"}'),
	('{"status": 204}')) c (e),
	_op_classify(:'spec', :'ours'::jsonb || '{"status": 200}' || e::jsonb) v;

-- An id longer than any real one is none.
SELECT verdict, reason, length(external_id)
FROM unnest('{255,256}'::int[]) n,
	_op_classify(:'spec', :'ours'::jsonb || jsonb_build_object('status', 200, 'body',
		jsonb_build_object('id', repeat('x', n), 'meta', '{"op_id": "refund-1"}'::jsonb))) v;

-- Whose marker: op id, generation, namespace; not compared where there is none to compare.
SELECT s AS more_spec, e AS more_evidence, m AS marker, verdict, reason
FROM (VALUES
	('{}', '{}', 'refund-1'),
	('{}', '{"generation": 2}', 'refund-1~2'),
	('{}', '{"generation": 2}', 'refund-1'),
	('{}', '{}', 'refund-1~1'),
	('{}', '{}', 'Refund-1'),
	('{}', '{}', 'refund-1 '),
	('{}', '{}', 'refund-10'),
	('{"namespace": "eu-"}', '{}', 'refund-1'),
	('{"namespace": "eu-"}', '{"op_id": null}', 'what you like'),
	('{"object": {"id": "$.id"}}', '{}', 'what you like')) c (s, e, m),
	_op_classify(:'spec'::jsonb || s::jsonb, :'ours'::jsonb || e::jsonb ||
		jsonb_build_object('status', 201, 'body', jsonb_build_object('id', 'x', 'meta', jsonb_build_object('op_id', m)))) v;

-- Where the object stands in the answer, and what must hold besides; no object: any 2xx.
SELECT s AS spec, e AS answer, verdict, reason, external_id
FROM (VALUES
	('{"object": {"id": "$.id"}, "success": {"object": "$.refund"}}', '{"body": {"refund": {"id": "r1"}}}'),
	('{"object": {"id": "$.id"}, "success": {"object": "$.refund"}}', '{"body": {"id": "r1"}}'),
	('{"object": {"id": "$.id"}, "success": {"if": "$.ok == true"}}', '{"body": {"id": "r1", "ok": true}}'),
	('{"object": {"id": "$.id"}, "success": {"if": "$.ok == true"}}', '{"body": {"id": "r1", "ok": "true"}}'),
	('{"object": {"id": "$.id"}, "success": {"if": "$.ok == true"}}', '{"body": {"id": "r1"}}'),
	('{"success": {"if": "$.ok == true"}}', '{"body": {"ok": true}}'),
	('{"success": {"if": "$.ok == true"}}', '{"body": "<html>"}'),
	('{"success": {"if": "$.ok == true"}}', '{"body": {"ok": true}, "cut": true}'),
	('{}', '{"body": "<html>"}'),
	('{}', '{"status": 202}'),
	('{}', '{"status": 204}'),
	('{}', '{"cut": true, "body": "{\"id\""}'),
	('{"object": {"id": "$.id"}}', '{"cut": true, "body": "{\"id\""}')) c (s, e),
	_op_classify(s::jsonb, '{"status": 200}'::jsonb || e::jsonb) v;

-- 5. Rules: the first that matches, before everything else that an answer can be.
\set rules '{"rules": [{"if": {"status": 409, "body": "$.code == \\"busy\\""}, "then": "in_progress", "reason": "key_in_use"}, {"if": {"status": [409, 422], "body": "$.code == \\"other_body\\""}, "then": "mismatch"}, {"if": {"body": "$.code == \\"done\\""}, "then": "already_done", "reason": "done_before"}, {"if": {"status": 402}, "then": "rejected", "reason": "card", "keyed": true}, {"if": {"header": "X-Cap", "value": "spend"}, "then": "blocked", "reason": "spend_cap"}, {"if": {"status": 503, "header": "x-before"}, "then": "not_processed"}, {"if": {"status": 200, "body": "$.error.code == \\"throttled\\""}, "then": "not_processed", "reason": "throttled"}, {"if": {"status": 418}, "then": "confirmed", "reason": "teapot"}]}'
SELECT e AS answer, verdict, reason, external_id, keyed
FROM (VALUES
	('{"status": 409, "body": {"code": "busy"}}'),
	('{"status": 409, "body": {"code": "other_body"}}'),
	('{"status": 422, "body": {"code": "other_body"}}'),
	('{"status": 422, "body": {"code": "busy"}}'),
	('{"status": 409, "body": {"code": "else"}}'),
	('{"status": 409, "body": "<html>"}'),
	('{"status": 400, "body": {"code": "done"}}'),
	('{"status": 500, "body": {"code": "done"}}'),
	('{"status": 402}'),
	('{"status": 429, "headers": {"x-cap": "Spend"}}'),
	('{"status": 429, "headers": {"x-cap": "none"}}'),
	('{"status": 429, "headers": {"x-cap-more": "spend"}}'),
	('{"status": 503}'),
	('{"status": 503, "headers": {"X-BEFORE": ""}}'),
	('{"status": 200, "body": {"error": {"code": "throttled"}}}'),
	('{"status": 418, "body": {"id": "tea", "meta": {"op_id": "refund-1"}}}'),
	('{"status": 418, "body": {"id": "tea", "meta": {"op_id": "another"}}}'),
	('{"status": 418}'),
	('{"status": 409, "body": {"code": "busy"}, "curl_code": 18, "phase": "head"}')) c (e),
	_op_classify(:'spec'::jsonb || :'rules', :'ours'::jsonb || e::jsonb) v;

-- A body that was cut might have matched a rule: then nothing behind it is known.
SELECT e AS answer, verdict, reason, keyed
FROM (VALUES
	('{"status": 409}'), ('{"status": 402}'), ('{"status": 429}'), ('{"status": 200}')) c (e),
	_op_classify('{"rules": [{"if": {"status": 402}, "then": "rejected", "keyed": true}, {"if": {"status": [402, 409], "body": "$.code == \"busy\""}, "then": "in_progress"}]}',
		'{"cut": true, "body": "{\"code\": \"bu"}'::jsonb || e::jsonb) v;

-- 6. Replays: a stored 5xx is no news, a stored refusal is the key's own answer.
SELECT e AS answer, verdict, reason, keyed
FROM (VALUES
	('{"status": 500}'),
	('{"status": 500, "headers": {"Idempotent-Replayed": "true"}}'),
	('{"status": 500, "headers": {"idempotent-replayed": " TRUE "}}'),
	('{"status": 500, "headers": {"Idempotent-Replayed": "false"}}'),
	('{"status": 503, "headers": {"Idempotent-Replayed": "true"}}'),
	('{"status": 402, "headers": {"Idempotent-Replayed": "true"}}'),
	('{"status": 402}'),
	('{"status": 201, "headers": {"Idempotent-Replayed": "true"}, "body": {"id": "re_1", "meta": {"op_id": "refund-1"}}}')) c (e),
	_op_classify(:'spec', :'ours'::jsonb || e::jsonb) v;

-- 7. Retry-After, as seconds behind the answer.
SELECT e AS answer, verdict, retry_at
FROM (VALUES
	('{"status": 429, "retry_after": 30}'),
	('{"status": 429}'),
	('{"status": 429, "retry_after": -5}'),
	('{"status": 503, "retry_after": 120}'),
	('{"status": 429, "retry_after": 2147483647}'),
	('{"status": 429, "retry_after": 30, "finished_at": null}'),
	('{"status": 429, "retry_after": 30, "kind": "lookup"}')) c (e),
	_op_classify('{}', '{"finished_at": "2026-01-01 12:00:00"}'::jsonb || e::jsonb) v;

-- 8. A lookup in a list: our own marker on an object, never "same amount".
\set list '{"lookup": {"items": "$.data[*]", "more": "$.has_more == true"}}'
\set a '{"id": "re_1", "status": "succeeded", "meta": {"op_id": "refund-1"}}'
\set b '{"id": "re_2", "status": "succeeded", "meta": {"op_id": "refund-1"}}'
\set c '{"id": "re_3", "status": "succeeded", "meta": {"op_id": "refund-1~2"}}'
\set p '{"id": "re_4", "status": "pending", "meta": {"op_id": "refund-1"}}'
\set f '{"id": "re_5", "status": "failed", "meta": {"op_id": "refund-1"}}'
\set g '{"id": "re_6", "status": "failed", "meta": {"op_id": "refund-1~2"}}'
\set x '{"id": "re_7", "status": "succeeded", "meta": {"op_id": "another"}}'
\set y '{"id": "re_8", "status": "succeeded"}'
\set n '{"status": "succeeded", "meta": {"op_id": "refund-1"}}'
SELECT what, more, verdict, reason, external_id
FROM (VALUES
	('nothing', '[]'),
	('others', jsonb_build_array(:'x'::jsonb, :'y'::jsonb, 17, null, '[]'::jsonb)),
	('ours', jsonb_build_array(:'x'::jsonb, :'a'::jsonb)),
	('ours, twice the same', jsonb_build_array(:'a'::jsonb, :'a'::jsonb)),
	('ours, pending', jsonb_build_array(:'p'::jsonb)),
	('ours, failed', jsonb_build_array(:'f'::jsonb)),
	('ours, failed and living', jsonb_build_array(:'f'::jsonb, :'a'::jsonb)),
	('ours, failed and pending', jsonb_build_array(:'p'::jsonb, :'f'::jsonb)),
	('two living', jsonb_build_array(:'a'::jsonb, :'b'::jsonb)),
	('two living, one pending', jsonb_build_array(:'a'::jsonb, :'p'::jsonb)),
	('of another generation', jsonb_build_array(:'c'::jsonb)),
	('of both generations', jsonb_build_array(:'a'::jsonb, :'c'::jsonb)),
	('of another generation, failed', jsonb_build_array(:'g'::jsonb)),
	('of another, failed; ours', jsonb_build_array(:'g'::jsonb, :'a'::jsonb)),
	('ours, without an id', jsonb_build_array(:'n'::jsonb))) c (what, items),
	unnest('{f,t}'::bool[]) more,
	_op_classify(:'spec'::jsonb || :'list', :'ours'::jsonb ||
		jsonb_build_object('kind', 'lookup', 'status', 200, 'body', jsonb_build_object('data', items, 'has_more', more))) v;

-- The same for a later generation.
SELECT what, verdict, reason, external_id
FROM (VALUES
	('ours', jsonb_build_array(:'c'::jsonb)),
	('ours, failed', jsonb_build_array(:'g'::jsonb)),
	('of the first generation', jsonb_build_array(:'a'::jsonb)),
	('of the first generation, failed', jsonb_build_array(:'f'::jsonb))) c (what, items),
	_op_classify(:'spec'::jsonb || :'list', :'ours'::jsonb ||
		jsonb_build_object('kind', 'lookup', 'generation', 2, 'status', 200, 'body', jsonb_build_object('data', items))) v;

-- Without a word of its own, a page that shows a cursor has another behind it.
SELECT body, verdict, reason FROM (VALUES
	('{"data": [], "next": "c_2"}'::jsonb),
	('{"data": [], "next": ""}'),
	('{"data": [], "next": null}'),
	('{"data": []}')) c (body),
	_op_classify(:'spec'::jsonb || '{"lookup": {"path": "/x", "items": "$.data[*]", "next": {"query": {"after": "$.next"}}}}',
		:'ours'::jsonb || jsonb_build_object('kind', 'lookup', 'status', 200, 'body', body)) v;

-- Objects of another kind are not ours, whatever marker they carry.
SELECT object, s.verdict AS send, s.reason, l.verdict AS lookup, l.reason FROM (VALUES
	('{"object": "refund", "id": "re_1", "meta": {"op_id": "refund-1"}}'::jsonb),
	('{"object": "charge", "id": "ch_1", "meta": {"op_id": "refund-1"}}'),
	('{"id": "ch_1", "meta": {"op_id": "refund-1"}}')) c (object),
	LATERAL _op_merge(:'spec'::jsonb || :'list', '{"object": {"is": "$.object == \"refund\""}}') spec,
	LATERAL _op_classify(spec, :'ours'::jsonb || jsonb_build_object('status', 200, 'body', object)) s,
	LATERAL _op_classify(spec, :'ours'::jsonb || jsonb_build_object('kind', 'lookup', 'status', 200, 'body', jsonb_build_object('data', jsonb_build_array(object)))) l;

-- What carries no marker of ours, though it is an object; and lists in which nothing has one.
SELECT e AS answer, verdict, reason, unmarked
FROM (VALUES
	('{"status": 201, "body": {"id": "re_1", "meta": {"op_id": "refund-1"}}}'),
	('{"status": 201, "body": {"id": "re_1", "reference": "refund-1"}}'),
	('{"status": 201, "body": {"id": "re_1", "meta": {"op_id": "REFUND-1"}}}'),
	('{"status": 200, "body": {"error": {"code": "throttled"}}}'),
	('{"status": 200, "body": "<html>"}'),
	('{"kind": "lookup", "status": 200, "body": {"data": []}}'),
	('{"kind": "lookup", "status": 200, "body": {"data": [{"id": "re_1", "reference": "refund-1"}, {"id": "re_2"}]}}'),
	('{"kind": "lookup", "status": 200, "body": {"data": [{"id": "re_1", "reference": "refund-1"}, {"id": "re_2", "meta": {"op_id": "refund-2"}}]}}')) c (e),
	_op_classify(:'spec'::jsonb || '{"lookup": {"path": "/x", "items": "$.data[*]"}}', :'ours'::jsonb || e::jsonb);

-- A lookup that fails says nothing about the operation; nor does a page without its list.
SELECT e AS answer, verdict, reason
FROM (VALUES
	('{"status": 404, "body": {"error": "no such payment"}}'),
	('{"status": 401}'),
	('{"status": 403}'),
	('{"status": 410}'),
	('{"status": 429}'),
	('{"status": 302}'),
	('{"status": 500}'),
	('{"status": 200, "body": "<html>"}'),
	('{"status": 200, "body": "{\"data\": ["}'),
	('{"status": 200, "body": ""}'),
	('{"status": 200, "body": {"error": {"code": "throttled"}}}'),
	('{"status": 200, "body": {"data": null}}'),
	('{"status": 200, "body": {"data": {}}}'),
	('{"status": 200, "body": {"data": "none"}}'),
	('{"status": 200, "body": []}'),
	('{"status": 204}'),
	('{"status": 200, "body": {"data": []}, "cut": true}'),
	('{"status": 200, "body": {"data": []}, "curl_code": 18, "phase": "head"}'),
	('{"curl_code": 28}'),
	('{"sent": false, "phase": "connect", "curl_code": 7}'),
	('{"sent": false, "phase": "tls", "curl_code": 60}'),
	('{"sent": false, "too_late": true}')) c (e),
	_op_classify(:'spec'::jsonb || :'list' || :'rules', :'ours'::jsonb || '{"kind": "lookup"}' || e::jsonb) v;

-- Lists in other shapes.
SELECT items, body, verdict, reason, external_id
FROM (VALUES
	('$[*]', '[]'),
	('$[*]', jsonb_build_array(:'a'::jsonb)),
	('$[*]', '{}'),
	('$.edges[*].node', jsonb_build_object('edges', jsonb_build_array(jsonb_build_object('node', :'a'::jsonb)))),
	('$.edges[*].node', '{"edges": []}'),
	('$.edges[*].node', '{"errors": []}'),
	('$.orders[*].refunds[*]', jsonb_build_object('orders', jsonb_build_array('{"refunds": []}'::jsonb, jsonb_build_object('refunds', jsonb_build_array(:'a'::jsonb))))),
	('$.orders[*].refunds[*]', '{"orders": []}')) c (items, body),
	_op_classify(:'spec'::jsonb || jsonb_build_object('lookup', jsonb_build_object('items', items)),
		:'ours'::jsonb || jsonb_build_object('kind', 'lookup', 'status', 200, 'body', body)) v;

-- 9. A lookup of one object; and none at all.
SELECT body, verdict, reason, external_id
FROM (VALUES
	(:'a'::jsonb), (:'p'), (:'f'), (:'c'), (:'g'), (:'x'), (:'y'), (:'n'), ('{}'), ('[]')) c (body),
	_op_classify(:'spec'::jsonb || '{"lookup": {}}', :'ours'::jsonb ||
		jsonb_build_object('kind', 'lookup', 'status', 200, 'body', body)) v;
SELECT * FROM _op_classify(:'spec', :'ours'::jsonb || '{"kind": "lookup", "status": 200, "body": {"id": "re_1"}}');

-- 10. Hostile bodies hurt nobody; where the JSON can be mended, the first answer confirms.
SELECT what, verdict, reason, external_id
FROM (VALUES
	('escaped NUL', convert_to('{"id": "re_1", "note": "a\u0000b", "meta": {"op_id": "refund-1"}}', 'UTF8')),
	('raw NUL', decode('7b226964223a2272655f31222c226e6f7465223a22', 'hex') || '\x00'::bytea || convert_to('", "meta": {"op_id": "refund-1"}}', 'UTF8')),
	('lone surrogate', convert_to('{"id": "re_1", "note": "\ud800", "meta": {"op_id": "refund-1"}}', 'UTF8')),
	('invalid UTF-8', convert_to('{"id": "re_1", "note": "', 'UTF8') || '\xfffe'::bytea || convert_to('", "meta": {"op_id": "refund-1"}}', 'UTF8')),
	('Latin-1', convert_to('{"id": "re_1", "note": "caf', 'UTF8') || '\xe9'::bytea || convert_to('", "meta": {"op_id": "refund-1"}}', 'UTF8')),
	('byte order mark', '\xefbbbf'::bytea || convert_to('{"id": "re_1", "meta": {"op_id": "refund-1"}}', 'UTF8')),
	('huge number', convert_to('{"id": "re_1", "n": 1e999999, "meta": {"op_id": "refund-1"}}', 'UTF8')),
	('duplicate keys', convert_to('{"id": "re_0", "id": "re_1", "meta": {"op_id": "refund-1"}}', 'UTF8')),
	('gzip', '\x1f8b0800000000000003'::bytea),
	('PNG', '\x89504e470d0a1a0a'::bytea),
	('deep', convert_to(repeat('[', 100000), 'UTF8')),
	('deep and whole', convert_to(repeat('[', 100000) || repeat(']', 100000), 'UTF8')),
	('nothing but blanks', convert_to('   ', 'UTF8'))) c (what, body),
	_op_classify(:'spec', :'ours'::jsonb || jsonb_build_object('status', 200, 'body_base64', translate(encode(body, 'base64'), E'\n', ''))) v;

-- The same bytes behind a rule and a lookup: no error there either.
SELECT count(*), count(DISTINCT verdict)
FROM unnest(ARRAY['\x1f8b0800'::bytea, '\x00', '\xff', '[[[[', '{"data":', '"\\ud800"', '1e999999', '{"data": [1e400, "x", [[]], {"id": {}}]}']) body,
	unnest('{send,lookup}'::text[]) kind,
	_op_classify(:'spec'::jsonb || :'rules' || :'list', :'ours'::jsonb || jsonb_build_object('kind', kind, 'status', 200, 'body_base64', translate(encode(body, 'base64'), E'\n', ''))) v;

-- 11. The shipped profiles.
SELECT e AS answer, verdict, reason, external_id, keyed
FROM (VALUES
	('{"status": 200, "body": {"object": "refund", "id": "re_1", "status": "succeeded", "metadata": {"op_id": "refund-1"}}}'),
	('{"status": 200, "body": {"object": "refund", "id": "re_1", "status": "pending", "metadata": {"op_id": "refund-1"}}}'),
	('{"status": 200, "body": {"object": "refund", "id": "re_1", "status": "requires_action", "metadata": {"op_id": "refund-1"}}}'),
	('{"status": 200, "body": {"object": "refund", "id": "re_1", "status": "failed", "metadata": {"op_id": "refund-1"}}}'),
	('{"status": 200, "body": {"object": "refund", "id": "re_1", "status": "canceled", "metadata": {"op_id": "refund-1"}}}'),
	('{"status": 200, "body": {"object": "refund", "id": "re_1", "status": "succeeded", "metadata": {}}}'),
	('{"status": 409, "body": {"error": {"type": "idempotency_error", "code": "idempotency_key_in_use"}}}'),
	('{"status": 400, "body": {"error": {"type": "idempotency_error"}}}'),
	('{"status": 400, "body": {"error": {"type": "invalid_request_error", "code": "charge_already_refunded"}}}'),
	('{"status": 400, "body": {"error": {"type": "invalid_request_error", "code": "parameter_missing"}}}'),
	('{"status": 402, "body": {"error": {"type": "card_error", "code": "card_declined"}}}'),
	('{"status": 429, "body": {"error": {"code": "lock_timeout"}}}'),
	('{"status": 429, "body": {"error": {"code": "rate_limit"}}}'),
	('{"status": 424, "body": {}}'),
	('{"status": 401, "body": {}}'),
	('{"status": 500, "body": {}}'),
	('{"status": 500, "body": {}, "headers": {"Idempotent-Replayed": "true"}}'),
	('{"kind": "lookup", "status": 200, "body": {"object": "list", "has_more": false, "data": [{"object": "refund", "id": "re_1", "status": "succeeded", "metadata": {"op_id": "refund-1"}}]}}'),
	('{"kind": "lookup", "status": 200, "body": {"object": "list", "has_more": false, "data": []}}'),
	('{"kind": "lookup", "status": 200, "body": {"object": "list", "has_more": true, "data": []}}')) c (e),
	op_profile p,
	_op_classify(_op_merge(p.spec->'provider', p.spec->'actions'->'refund'), :'ours'::jsonb || e::jsonb) v
WHERE p.name = 'stripe';

SELECT s AS status, verdict, reason, external_id
FROM unnest('{200,202,204,400,401,409,429,500}'::int[]) s, op_profile p,
	_op_classify(_op_merge(p.spec->'provider', p.spec->'actions'->'post'), jsonb_build_object('status', s)) v
WHERE p.name = 'http';

-- 12. An id is what its path finds first, by whatever way it is read: text or number.
SELECT count(*) AS cases, count(external_id) AS found, count(*) FILTER (WHERE external_id IS DISTINCT FROM wanted) AS wrong
FROM (SELECT p AS path, b AS body, jsonb_path_query_first(b::jsonb, p::jsonpath, silent => true) AS first
	FROM unnest(ARRAY['$', '$.a', '$.a.b', '$.a.b.c', 'strict $', 'strict $.a', 'strict $.a.b', '$.""', '$."a.b"', '$.a[0]', '$.a[*]', '$.a[*].b',
		'$[*].a', '$[0].a', '$.*', '$.a.*', '$.a ? (@ == "x")', '$.a ? (@.b == 1).b', '$.a + 1', '-$.a', '$.a == 1', '$.a.size()', '$.a.type()', '1', '"x"',
		'$.a.b ? (exists(@))', '$.**.b']) p,
	unnest(ARRAY['{}', '[]', '1', '"x"', 'null', 'true', '{"a": "x"}', '{"a": 1}', '{"a": 1.50}', '{"a": ""}', '{"a": null}', '{"a": true}', '{"a": {}}',
		'{"a": []}', '{"a": ["x"]}', '{"a": {"b": "x"}}', '{"a": {"b": 1}}', '{"a": [{"b": "x"}, {"b": "y"}]}', '{"a": {"b": {"c": "x"}}}',
		'{"a": {"b": ["x", 1]}}', '{"a": {"b": [{"c": 1}]}}', '[{"a": "x"}, {"a": "y"}]', '[{"a": {"b": 1}}]', '[[{"a": "x"}]]', '{"": "x"}',
		'{"a.b": "x"}', '{"b": 1, "a": "x", "aa": 2}', '{"b": {"a": 1}}']) b) c,
	_op_classify(jsonb_build_object('object', jsonb_build_object('id', path)),
		jsonb_build_object('status', 200, 'body_base64', translate(encode(convert_to(body, 'UTF8'), 'base64'), E'\n', ''))) v,
	LATERAL (SELECT CASE WHEN jsonb_typeof(first) IN ('string', 'number') THEN nullif(first #>> '{}', '') END AS wanted) w;

-- 13. Evidence itself is checked: a misspelt field would be a test that tests nothing.
SELECT * FROM _op_classify('{}', '{"htp_status": 200}');
SELECT * FROM _op_classify('{}', '{"status": "200"}');

-- A body in a coding that nobody asked for is read without it, within the limit; one that cannot be decoded
-- proves nothing, and says so. What is decoded already keeps its header.
SELECT what, coding, verdict, reason, external_id
FROM (VALUES
	(0, 'gzip', 'gzip', 'H4sIAAAAAAACA6tWykxRslJQKkqNN1TSUVDKTS1JBPKrlfIL4mEyaaV5KbqGSrW1AOAVWL4tAAAA'),
	(1, 'x-gzip, other case', 'X-GZIP', 'H4sIAAAAAAACA6tWykxRslJQKkqNN1TSUVDKTS1JBPKrlfIL4mEyaaV5KbqGSrW1AOAVWL4tAAAA'),
	(2, 'deflate', 'deflate', 'eNqrVspMUbJSUCpKjTdU0lFQyk0tSQTyq5XyC+JhMmmleSm6hkq1tQAmxw1n'),
	(3, 'deflate without zlib', 'deflate', 'q1bKTFGyUlAqSo03VNJRUMpNLUkE8quV8gviYTJppXkpuoZKtbUA'),
	(4, 'identity', 'identity', 'eyJpZCI6ICJyZV8xIiwgIm1ldGEiOiB7Im9wX2lkIjogInJlZnVuZC0xIn19'),
	(5, 'gzip, identity', 'gzip, identity', 'H4sIAAAAAAACA6tWykxRslJQKkqNN1TSUVDKTS1JBPKrlfIL4mEyaaV5KbqGSrW1AOAVWL4tAAAA'),
	(6, 'twice', 'gzip, gzip', 'H4sIAAAAAAACA5Pv5mAAASbm1WGnfAI3BQVoefWah1wKDDjlq+vJ8mn11E/cjxKNMpdWau5q89q6leGBaMQ+XaAGAHV/Dcc5AAAA'),
	(7, 'deflate, then gzip', 'deflate,gzip', 'H4sIAAAAAAACAwEtANL/eNqrVspMUbJSUCpKjTdU0lFQyk0tSQTyq5XyC+JhMmmleSm6hkq1tQAmxw1nwPNmiS0AAAA='),
	(8, 'two streams', 'gzip', 'H4sIAAAAAAACA6tWykxRslJQKkoFAFPYpusKAAAAH4sIAAAAAAACA4s3VNJRUMpNLUlUslKoVsoviM9MAbKUilLTSvNSdA2VamsBVw8XDSMAAAA='),
	(9, 'undone before', 'gzip', 'eyJpZCI6ICJyZV8xIiwgIm1ldGEiOiB7Im9wX2lkIjogInJlZnVuZC0xIn19'),
	(10, 'undone before', 'br', 'eyJpZCI6ICJyZV8xIiwgIm1ldGEiOiB7Im9wX2lkIjogInJlZnVuZC0xIn19'),
	(11, 'undone before', 'deflate', 'eyJpZCI6ICJyZV8xIiwgIm1ldGEiOiB7Im9wX2lkIjogInJlZnVuZC0xIn19'),
	(12, 'br', 'br', 'ixWAYWI='),
	(13, 'zstd', 'zstd', 'KLUv/QQ='),
	(14, 'no word', '<b>"x"', 'AQI='),
	(15, 'none of it', 'gzip', 'AAE='),
	(16, 'no end', 'gzip', 'H4sIAAAAAAACA6tWykxRslJQKkqNN1TSUVDKTS1JBPKrlfIL4mEyaaV5KbqGSrW1'),
	(17, 'wrong check sum', 'gzip', 'H4sIAAAAAAACA6tWykxRslJQKkqNN1TSUVDKTS1JBPKrlfIL4mEyaaV5KbqGSrW1AAAAAAAtAAAA'),
	(18, 'something behind it', 'gzip', 'H4sIAAAAAAACA6tWykxRslJQKkqNN1TSUVDKTS1JBPKrlfIL4mEyaaV5KbqGSrW1AOAVWL4tAAAAe30='),
	(19, 'the wrong one', 'deflate', 'H4sIAAAAAAACA6tWykxRslJQKkqNN1TSUVDKTS1JBPKrlfIL4mEyaaV5KbqGSrW1AOAVWL4tAAAA'),
	(20, 'five on each other', 'gzip,gzip,gzip,gzip,gzip', 'H4sIAAAAAAACA5Pv5mAAASZmxniGBf/l4dzJ758lMDCqPTv5fr6qgcEq292zduxpOzlnquniT6/XfJPQk+tevjp+/p8pP792/Z9btzBu8cvEyPeb7O7fMv2amHxMcPcN1hyepV/3HNdtdGNg+Ghf+NobaKz5jwN68UAaAJ791Ip2AAAA'),
	(21, 'no JSON in it', 'gzip', 'H4sIAAAAAAACA7PJKMnNsQMAQQxDxwYAAAA='),
	(22, 'nothing in it', 'gzip', 'H4sIAAAAAAACAwMAAAAAAAAAAAA='),
	(23, 'too long', 'gzip', 'H4sIAAAAAAACA6tWykxRslJQKkqNN1TSUVDKTS1JBPKrlfIL4mEyaaV5KbqGSrW1CqNgFIyCUTAKRsEoGPIAAEWcL1T9BwAA'),
	(24, 'as long as may be', 'gzip', 'H4sIAAAAAAACA6tWykxRslJQKkqNN1TSUVDKTS1JBPKrlfIL4mEyaaV5KbqGSrW1CqNgFIyC4QQA+zBk5QAEAAA=')) c (n, what, coding, base64),
	_op_classify(:'spec'::jsonb || '{"response_limit": 1024}', :'ours'::jsonb || jsonb_build_object('status', 200, 'body_base64', base64,
		'headers', jsonb_build_object('Content-Encoding', coding))) v
ORDER BY n;

-- A refusal's code is seen by the rules; what might have matched, if it could be decoded, is not a refusal.
SELECT status, coding, verdict, reason
FROM (VALUES
	(1, 409, 'gzip', 'H4sIAAAAAAACA6tWSi0qyi9SslKoVkrOT0kFMpRSKzKLS4qVamsBWiN0eR0AAAA='),
	(2, 409, 'br', 'iw6Ae30='),
	(3, 400, 'br', 'iw6Ae30='),
	(4, 400, 'gzip', 'H4sIAAAAAAACA6tWSi0qyi9SslKoVkrOT0kFMpRSKzKLS4qVamsBWiN0')) c (n, status, coding, base64),
	_op_classify('{"rules": [{"if": {"status": 409, "body": "$.error.code == \"exists\""}, "then": "already_done"}]}',
		jsonb_build_object('status', status, 'body_base64', base64, 'headers', jsonb_build_object('Content-Encoding', coding))) v
ORDER BY n;

-- Pages of a lookup, too.
SELECT coding, verdict, reason, external_id
FROM (VALUES
	(1, 'gzip', 'H4sIAAAAAAACA6tWSkksSVSyUoiuVspMAdJKRanxhko6Ckq5qWDxaqX8gniYTFppXoquoVJtbWwtAFxFPlM5AAAA'),
	(2, 'deflate', 'eNqrVkpJLElUslKIjq0FABmUA+k='),
	(3, 'zstd', 'KLUv/QQ='),
	(4, 'gzip', 'H4sIAAAAAAACA6tWSkksSVSyUgAA0iI7OQkAAAA=')) c (n, coding, base64),
	_op_classify(:'spec'::jsonb || '{"lookup": {"path": "/r", "items": "$.data[*]"}}',
		:'ours'::jsonb || jsonb_build_object('kind', 'lookup', 'status', 200, 'body_base64', base64, 'headers', jsonb_build_object('Content-Encoding', coding))) v
ORDER BY n;

-- UTF-16 is read, where charset or mark say so.
SELECT what, type, verdict, reason, external_id
FROM (VALUES
	(0, 'little end', 'application/json; charset=utf-16le', 'ewAiAGkAZAAiADoAIAAiAHIAZQBfADEAIgAsACAAIgBtAGUAdABhACIAOgAgAHsAIgBvAHAAXwBpAGQAIgA6ACAAIgByAGUAZgB1AG4AZAAtADEAIgB9AH0A'),
	(1, 'big end', 'application/json;charset="UTF-16BE"', 'AHsAIgBpAGQAIgA6ACAAIgByAGUAXwAxACIALAAgACIAbQBlAHQAYQAiADoAIAB7ACIAbwBwAF8AaQBkACIAOgAgACIAcgBlAGYAdQBuAGQALQAxACIAfQB9'),
	(2, 'its mark says', 'application/json; charset=utf-16', '//57ACIAaQBkACIAOgAgACIAcgBlAF8AMQAiACwAIAAiAG0AZQB0AGEAIgA6ACAAewAiAG8AcABfAGkAZAAiADoAIAAiAHIAZQBmAHUAbgBkAC0AMQAiAH0AfQA='),
	(3, 'its mark says', 'application/json; charset=utf-16', '/v8AewAiAGkAZAAiADoAIAAiAHIAZQBfADEAIgAsACAAIgBtAGUAdABhACIAOgAgAHsAIgBvAHAAXwBpAGQAIgA6ACAAIgByAGUAZgB1AG4AZAAtADEAIgB9AH0='),
	(4, 'no mark', 'application/json; charset=utf-16', 'ewAiAGkAZAAiADoAIAAiAHIAZQBfADEAIgAsACAAIgBtAGUAdABhACIAOgAgAHsAIgBvAHAAXwBpAGQAIgA6ACAAIgByAGUAZgB1AG4AZAAtADEAIgB9AH0A'),
	(5, 'no mark', 'application/json; version=1; charset=utf-16', 'AHsAIgBpAGQAIgA6ACAAIgByAGUAXwAxACIALAAgACIAbQBlAHQAYQAiADoAIAB7ACIAbwBwAF8AaQBkACIAOgAgACIAcgBlAGYAdQBuAGQALQAxACIAfQB9'),
	(6, 'a mark, no charset', 'application/json', '//57ACIAaQBkACIAOgAgACIAcgBlAF8AMQAiACwAIAAiAG0AZQB0AGEAIgA6ACAAewAiAG8AcABfAGkAZAAiADoAIAAiAHIAZQBmAHUAbgBkAC0AMQAiAH0AfQA='),
	(7, 'neither', 'application/json', 'ewAiAGkAZAAiADoAIAAiAHIAZQBfADEAIgAsACAAIgBtAGUAdABhACIAOgAgAHsAIgBvAHAAXwBpAGQAIgA6ACAAIgByAGUAZgB1AG4AZAAtADEAIgB9AH0A'),
	(8, 'it is UTF-8', 'application/json; charset=utf-16', 'eyJpZCI6ICJyZV8xIiwgIm1ldGEiOiB7Im9wX2lkIjogInJlZnVuZC0xIn19'),
	(9, 'half a pair', 'application/json; charset=utf-16le', 'ewAiAGkAZAAiADoAIAAiAHIAZQBfADEAIgAsACAAIgB4ACIAOgAgACIAANgiACwAIAAiAHkAIgA6ACAAIgA92ADeIgAsACAAIgBtAGUAdABhACIAOgAgAHsAIgBvAHAAXwBpAGQAIgA6ACAAIgByAGUAZgB1AG4AZAAtADEAIgB9AH0A'),
	(10, 'half a unit', 'application/json; charset=utf-16le', 'ewAiAGkAZAAiADoAIAAiAHIAZQBfADEAIgAsACAAIgBtAGUAdABhACIAOgAgAHsAIgBvAHAAXwBpAGQAIgA6ACAAIgByAGUAZgB1AG4AZAAtADEAIgB9AH0='),
	(11, 'one byte', 'application/json; charset=utf-16', 'ew==')) c (n, what, type, base64),
	_op_classify(:'spec', :'ours'::jsonb || jsonb_build_object('status', 200, 'body_base64', base64, 'headers', jsonb_build_object('Content-Type', type))) v
ORDER BY n;

-- An id that a header has: of an answer without a body, or where the object has none.
SELECT id, e AS answer, verdict, reason, external_id
FROM (VALUES
	('"header:Location"', '{"status": 201, "headers": {"location": "/jobs/17"}}'),
	('"header:Location[last]"', '{"status": 201, "headers": {"Location": "https://api.example.com/v1/jobs/17?x=/y"}}'),
	('"header:Location[last]"', '{"status": 201, "headers": {"Location": "/jobs/a%20b%2Fc/#top"}}'),
	('"header:Location[last]"', '{"status": 202, "headers": {"Location": "/jobs/17/"}}'),
	('"header:Location[last]"', '{"status": 204, "headers": {"Location": "17"}}'),
	('"header:Location[last]"', '{"status": 201}'),
	('"header:Location[last]"', '{"status": 202}'),
	('"header:Location[last]"', '{"status": 201, "headers": {"Location": "https://api.example.com"}}'),
	('"header:Location[last]"', '{"status": 201, "headers": {"Location": "https://api.example.com/"}}'),
	('"header:Location[last]"', '{"status": 201, "headers": {"Location": "/jobs/%zz"}}'),
	('"header:Location[last]"', '{"status": 201, "headers": {"Location": "/jobs/%00"}}'),
	('"header:Location[last]"', '{"status": 201, "headers": {"Location": "/jobs/%ff"}}'),
	('"header:Location[last]"', '{"status": 303, "headers": {"Location": "/jobs/17"}}'),
	('"header:Location[last]"', '{"status": 201, "headers": {"Location": "/jobs/17"}, "body": {"meta": {"op_id": "refund-1"}}}'),
	('"header:Location[last]"', '{"status": 201, "headers": {"Location": "/jobs/17"}, "body": {"meta": {"op_id": "refund-2"}}}'),
	('"header:Location[last]"', '{"status": 201, "headers": {"Location": "/jobs/17"}, "body": "<html>"}'),
	('["$.id", "header:Location[last]"]', '{"status": 201, "headers": {"Location": "/jobs/17"}, "body": {"id": "re_1", "meta": {"op_id": "refund-1"}}}'),
	('["$.id", "header:Location[last]"]', '{"status": 201, "headers": {"Location": "/jobs/17"}, "body": {"meta": {"op_id": "refund-1"}}}'),
	('"$.id"', '{"status": 201, "headers": {"Location": "/jobs/17"}}')) c (id, e),
	_op_classify(jsonb_build_object('object', jsonb_build_object('id', id::jsonb, 'marker', '$.meta.op_id')), :'ours'::jsonb || e::jsonb) v;
SELECT verdict, reason, external_id
FROM _op_classify('{"object": {"id": "header:Location[last]"}, "rules": [{"if": {"status": 303}, "then": "accepted"}]}',
	'{"status": 303, "headers": {"Location": "/jobs/17"}}');

-- What is no HTTP says so.
SELECT e AS evidence, verdict, reason
FROM (VALUES
	('{"curl_code": 1}'),
	('{"curl_code": 8}'),
	('{"curl_code": 8, "status": 200, "phase": "head"}'),
	('{"curl_code": 1, "sent": false}'),
	('{"kind": "lookup", "curl_code": 1}')) c (e),
	_op_classify('{"lookup": {"path": "/r", "items": "$.data[*]"}}', e::jsonb) v;
