-- A spec: what is refused, where and with which hint; what is accepted at a price.
\pset format unaligned
\pset tuples_only on
\pset null '-'

-- What an action's spec looks like when nothing is wrong with it.
\set good '{"base_url": "https://api.example.com", "secret": "file:example.key", "auth": {"scheme": "bearer"}, "args": {"payment": {"type": "text"}, "amount": {"type": "integer", "min": 1}, "note": {"type": "text", "optional": true}}, "headers": {"X-Version": "7"}, "request": {"path": "/v1/refunds", "form": {"payment": "{payment}", "amount": "{amount}", "meta": {"op_id": "{marker}"}}}, "object": {"id": "$.id", "marker": "$.meta.op_id", "pending": "$.status == \\"pending\\"", "failed": "$.status == \\"failed\\""}, "key": {"ttl": "24 h", "stores": "all"}, "lookup": {"path": "/v1/refunds", "query": {"payment": "{payment}"}, "items": "$.data[*]", "more": "$.has_more == true", "next": {"query": {"after": "$.data[last].id"}}}}'
SELECT _op_check_spec('example.refund', :'good');

-- One patch over it, and what is said about that. SQLSTATE first.
CREATE FUNCTION pg_temp.said(spec jsonb, patch jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	v_state text; v_message text; v_detail text; v_hint text;
BEGIN
	PERFORM _op_check_spec('example.refund', _op_merge(spec, patch));
	RETURN patch::text || E'\n  accepted';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS v_state = RETURNED_SQLSTATE, v_message = MESSAGE_TEXT, v_detail = PG_EXCEPTION_DETAIL, v_hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(E'\n', patch, format('  %s: %s', v_state, v_message), '  DETAIL: ' || nullif(v_detail, ''), '  HINT: ' || nullif(v_hint, ''));
END $$;

-- 1. Names: unknown ones, with the nearest that is known.
SELECT pg_temp.said(:'good', p) FROM unnest(ARRAY[
	'{"retry": {"atempts": 3}}',
	'{"retrys": {"attempts": 3}}',
	'{"Timeout": {}}',
	'{"ttl": "24 h"}',
	'{"key": {"time_to_live": "24 h"}}',
	'{"args": {"amount": {"typ": "integer"}}}',
	'{"rules": [{"if": {"status": 409}, "then": "in_progress"}, {"if": {"code": 1}, "then": "rejected"}]}',
	'{"lookup": {"next": {"qery": {}}}}',
	'{"zzz": 1}']::jsonb[]) p;

-- 2. Types and ranges.
SELECT pg_temp.said(:'good', p) FROM unnest(ARRAY[
	'{"retry": 3}',
	'{"retry": {"attempts": "3"}}',
	'{"retry": {"attempts": 2.5}}',
	'{"retry": {"attempts": 0}}',
	'{"retry": {"attempts": 1e400}}',
	'{"retry": {"base": 0.5}}',
	'{"retry": {"jitter": 1.5}}',
	'{"retry": {"jitter": true}}',
	'{"retry": {"initial": "0 s"}}',
	'{"timeout": {"total": 30}}',
	'{"timeout": {"total": "30 parsecs"}}',
	'{"timeout": {"total": "1 month"}}',
	'{"timeout": {"total": "-1 s"}}',
	'{"timeout": {"total": "2 h"}}',
	'{"key": {"ttl": "200 years"}}',
	'{"key": {"ttl": ""}}',
	'{"key": {"in": "heder"}}',
	'{"key": {"format": "RAW"}}',
	'{"key": {"max": 8}}',
	'{"key": {"replayed": "Idempotent-Replayed"}}',
	'{"key": {"replayed": "header:a b"}}',
	'{"key": {"guards": "yes"}}',
	'{"auth": {"scheme": "digest"}}',
	'{"request": {"method": "GET"}}',
	'{"request": {"form": ["a"]}}',
	'{"args": ["amount"]}',
	'{"args": {"amount": "integer"}}',
	'{"args": {"amount": {"type": "int"}}}',
	'{"args": {"amount": {"type": "integer", "min": "1"}}}',
	'{"args": {"amount": {"type": "integer", "one_of": []}}}',
	'{"rules": {}}',
	'{"rules": ["409"]}',
	'{"rules": [{"if": {"status": 99}, "then": "rejected"}]}',
	'{"rules": [{"if": {"status": [400, "409"]}, "then": "rejected"}]}',
	'{"rules": [{"if": {"status": 409}, "then": "in_progres"}]}',
	'{"rules": [{"if": {"status": 409}, "then": "found"}]}',
	'{"rules": [{"if": {"status": 409}, "then": "not_sent"}]}',
	'{"redact": "$.card"}',
	'{"approval": "yes"}',
	'{"executor": "browser"}']::jsonb[]) p;

-- 3. What must be there.
SELECT pg_temp.said(:'good', p) FROM unnest(ARRAY[
	'{"base_url": null}',
	'{"request": null}',
	'{"request": {"path": null}}',
	'{"object": {"id": null}}',
	'{"lookup": {"path": null}}',
	'{"args": {"amount": {"type": null}}}',
	'{"rules": [{"if": {"status": 409}}]}',
	'{"rules": [{"then": "rejected"}]}',
	'{"auth": {"scheme": "header"}}']::jsonb[]) p;

-- 4. jsonpaths: they parse, they run, and nothing in them can throw later.
SELECT pg_temp.said(:'good', p) FROM unnest(ARRAY[
	'{"object": {"id": "$.id ="}}',
	'{"object": {"id": "id"}}',
	'{"object": {"id": "header:"}}',
	'{"object": {"id": "header:Location[0]"}}',
	'{"object": {"id": "header:Two words"}}',
	'{"object": {"id": "header:Location[last]"}}',
	'{"object": {"id": ["$.id", "header:Location[last]"]}}',
	'{"object": {"id": ["$.id", "$.uid"]}}',
	'{"object": {"id": ["header:Location", "header:X-Id"]}}',
	'{"object": {"id": []}}',
	'{"object": {"id": [1]}}',
	'{"object": {"id": "$.a ? (@.b == $x)"}}',
	'{"object": {"id": "$.a.datetime()"}}',
	'{"object": {"id": "$.a ? (@.b.datetime() < @.c.datetime())"}}',
	'{"object": {"id": "$.\"x.datetime(\""}}',
	'{"object": {"failed": "$.status ? (@ == \"failed\")"}}',
	'{"object": {"failed": "exists($.status ? (@ == \"failed\"))"}}',
	'{"object": {"failed": "$.status like_regex \"(\""}}',
	'{"object": {"failed": "$.has_failed"}}',
	'{"success": {"if": "strict $.a ? (@ > 1)"}}',
	'{"success": {"object": "$["}}',
	'{"rules": [{"if": {"body": "$.error.code = 1"}, "then": "rejected"}]}',
	'{"lookup": {"items": "$.data"}}',
	'{"lookup": {"more": ".has_more"}}',
	'{"redact": ["$.card.number", "$$"]}']::jsonb[]) p;
SELECT replace(pg_temp.said(:'good', jsonb_build_object('object', jsonb_build_object('id', '$.' || repeat('x', n)))), repeat('x', n), '…') FROM unnest('{998,999}'::int[]) n;

-- 5. Where requests go: scheme, host and port are the administrator's alone.
SELECT pg_temp.said(:'good', p) FROM unnest(ARRAY[
	'{"base_url": "api.example.com"}',
	'{"base_url": "ftp://api.example.com"}',
	'{"base_url": "file:///etc/passwd"}',
	'{"base_url": "HTTPS://api.example.com"}',
	'{"base_url": "https://"}',
	'{"base_url": "https:///v1"}',
	'{"base_url": "https://user:pw@api.example.com"}',
	'{"base_url": "https://api.example.com@evil.example"}',
	'{"base_url": "https://api.example.com:0"}',
	'{"base_url": "https://api.example.com:65536"}',
	'{"base_url": "https://api.example.com:x"}',
	'{"base_url": "https://api.example.com/v1?a=b"}',
	'{"base_url": "https://api.example.com/v1#a"}',
	'{"base_url": "https://api.example.com\\evil"}',
	'{"base_url": "https://api.example.com/a b"}',
	'{"base_url": "https://api.example.com/../x"}',
	'{"base_url": "https://exämple.com"}',
	'{"base_url": "https://{payment}.example.com"}',
	'{"base_url": "https://[::1"}',
	'{"request": {"path": "v1/refunds"}}',
	'{"request": {"path": "{payment}"}}',
	'{"request": {"path": "@evil.example/"}}',
	'{"request": {"path": "https://evil.example/"}}',
	'{"request": {"path": "/v1/../admin"}}',
	'{"request": {"path": "/v1/%2e%2E/admin"}}',
	'{"request": {"path": "/v1\\admin"}}',
	'{"request": {"path": "/v1/refunds?x=1"}}',
	'{"request": {"path": "/v1/re funds"}}',
	'{"lookup": {"path": "/v1/refunds#"}}']::jsonb[]) p;

-- 6. Headers and secrets. No message shows a value.
SELECT pg_temp.said(:'good', p) FROM unnest(ARRAY[
	'{"headers": {"X-A": "a\r\nX-Evil: 1"}}',
	'{"headers": {"X-A": "a\nb"}}',
	'{"headers": {"X-A": "a\u0001b"}}',
	'{"headers": {"X-A": ""}}',
	'{"headers": {"X-A": " "}}',
	'{"headers": {"X-A": 7}}',
	'{"headers": {"X A": "a"}}',
	'{"headers": {"X-A:": "a"}}',
	'{"headers": {"": "a"}}',
	'{"headers": {"Authorization": "Bearer sk_live_1"}}',
	'{"headers": {"cookie": "session=sk_live_1"}}',
	'{"headers": {"Host": "evil.example"}}',
	'{"headers": {"Content-Length": "0"}}',
	'{"headers": {"Transfer-Encoding": "chunked"}}',
	'{"headers": {"idempotency-key": "fixed"}}',
	'{"auth": {"scheme": "header", "name": "X-Version"}}',
	'{"auth": {"scheme": "header", "name": "x api key"}}',
	'{"key": {"name": "Authorization"}}',
	'{"key": {"name": "Idempotency Key"}}',
	'{"secret": "sk_live_4711"}',
	'{"secret": "file:../sk_live_4711"}',
	'{"secret": "file:/etc/sk_live_4711"}',
	'{"secret": "env:SK LIVE"}']::jsonb[]) p;

-- 7. Placeholders stand for something; a lookup in a list has a marker to look for.
SELECT pg_temp.said(:'good', p) FROM unnest(ARRAY[
	'{"request": {"form": {"payment": "{paymnt}"}}}',
	'{"request": {"form": {"payment": "{order}"}}}',
	'{"request": {"form": {"payment": "{external_id}"}}}',
	'{"request": {"path": "/v1/{paymen}/refunds"}}',
	'{"request": {"query": {"a": "{b}"}}}',
	'{"headers": {"X-A": "{markr}"}}',
	'{"lookup": {"query": {"payment": "{paymnt}"}}}',
	'{"lookup": {"query": {"key": "{key}"}}}',
	'{"request": {"form": {"payment": "{payment"}}}',
	'{"request": {"form": {"payment": "{{payment}}"}}}',
	'{"key": {"in": "none", "ttl": "0 s", "stores": "nothing"}, "request": {"form": {"k": "{key}"}}}',
	'{"args": {"marker": {"type": "text"}}}',
	'{"args": {"a}b": {"type": "text"}}}',
	'{"request": {"form": {"meta": {"op_id": "{op_id}"}}}}',
	'{"request": {"form": {"meta": null, "reference": "{marker}"}}}',
	'{"request": {"form": {"meta": null}, "path": "/v1/refunds/{marker}"}}',
	'{"request": {"form": {"meta": null}, "query": {"ref": "a-{marker}"}}}',
	'{"request": {"form": {"meta": null}}, "headers": {"X-Reference": "{marker}"}}',
	'{"object": {"marker": null}}',
	'{"object": null}',
	'{"object": {"marker": null}, "lookup": {"items": null, "more": null, "next": null}}',
	'{"poll": {"path": "/v1/refunds/{external_id}"}}',
	'{"poll": {"path": "/v1/refunds", "query": {"id": "{external_id}"}}}',
	'{"poll": {"path": "/v1/refunds/{external}"}}']::jsonb[]) p;

-- The next page of a lookup, and a poll: what they need.
SELECT pg_temp.said(:'good', p) FROM unnest(ARRAY[
	'{"lookup": {"next": {"query": null}}}',
	'{"lookup": {"next": {"query": {"after": "$.data["}}}}',
	'{"lookup": {"next": {"query": {"after": 7}}}}',
	'{"lookup": {"next": {"query": {"after": "{cursor}"}}}}',
	'{"lookup": {"next": {"query": {"after": "{1}"}}}}',
	'{"lookup": {"next": {"query": {"payment": "$.next"}}}}',
	'{"lookup": {"next": {"query": {"page[after]": "$.next", "page[size]": "100"}}}}',
	'{"lookup": {"more": null}}',
	'{"lookup": {"more": null, "next": {"query": {"after": null, "page": "{page}"}}}}',
	'{"lookup": {"items": null, "more": null}}',
	'{"lookup": {"pages": 0}}',
	'{"poll": {"path": "/v1/refunds"}}',
	'{"poll": {}}',
	'{"object": null, "lookup": null, "poll": {"path": "/v1/refunds/{external_id}"}}']::jsonb[]) p;

-- 8. Rules that would hide all others.
SELECT pg_temp.said(:'good', p) FROM unnest(ARRAY[
	'{"rules": [{"if": {}, "then": "rejected"}]}',
	'{"rules": [{"if": {"status": []}, "then": "rejected"}]}',
	'{"rules": [{"if": {"status": 400, "value": "x"}, "then": "rejected"}]}']::jsonb[]) p;

-- 9. Promises that make no sense.
SELECT pg_temp.said(:'good', p) FROM unnest(ARRAY[
	'{"rate": {"per_second": 20}}',
	'{"rate": null}',
	'{"undo": {"action": "example.charge"}}',
	'{"messages": {"en": {}}}',
	'{"auth": {"name": "x-api-key"}}',
	'{"args": {"flag": {"type": "boolean", "min": 1}}}',
	'{"object": null, "lookup": null, "success": {"object": "$.refund"}}',
	'{"lookup": {"items": null, "next": null}}',
	'{"lookup": {"next": null, "pages": 5}}',
	'{"webhook": {"scheme": "github", "secret": "file:hook", "tolerance": "1 min"}}',
	'{"webhook": {"scheme": "github", "secret": "file:hook", "url": "https://hooks.example.com"}}',
	'{"effect": "set"}',
	'{"effect": "sett"}',
	'{"request": {"json": {"a": "{marker}"}}}',
	'{"key": {"in": "none"}}',
	'{"key": {"in": "none", "ttl": "0 s"}}',
	'{"key": {"ttl": "65 s"}}',
	'{"key": {"ttl": "65.1 s"}}',
	'{"timeout": {"flight": "25 h"}}',
	'{"key": {"ttl": null, "guards": true}}',
	'{"key": {"stores": "nothing", "guards": true}}',
	'{"key": {"stores": "success", "guards": true}}',
	'{"key": {"format": "uuid", "max": 30}}',
	'{"lookup": {"grade": "eventual"}}',
	'{"lookup": {"grade": "eventual", "lag": "1 min"}}',
	'{"retry": {"initial": "2 min"}}',
	'{"timeout": {"connect": "40 s"}}',
	'{"timeout": {"total": "1 s"}}',
	'{"key": {"in": "body"}}',
	'{"key": {"in": "body", "name": "idempotency_key"}}',
	'{"key": {"in": "body", "name": "/idempotency_key"}}',
	'{"key": {"in": "body", "name": "/meta/key"}}',
	'{"key": {"in": "body", "name": "/mata/key"}}',
	'{"key": {"in": "body", "name": "/k"}, "request": {"form": null, "path": "/v1/{marker}"}}']::jsonb[]) p;

-- 10. What is accepted, and its price.
SELECT _op_check_spec('plain', '{"base_url": "http://10.0.0.7:8080/api/", "request": {"path": "/x"}}');
SELECT _op_check_spec('secret', _op_merge(:'good', '{"secret": null}'));
SELECT _op_check_spec('secret', _op_merge(:'good', '{"auth": {"scheme": "none"}}'));
SELECT _op_check_spec('success only', _op_merge(:'good', '{"key": {"stores": "success"}}'));
SELECT _op_check_spec('no ttl', _op_merge(:'good', '{"key": {"ttl": null}}'));
SELECT _op_check_spec('no ttl, no lookup', _op_merge(:'good', '{"key": {"ttl": null}, "lookup": null}'));
SELECT _op_check_spec('no marker', _op_merge(:'good', '{"object": {"marker": null}, "lookup": null}'));
SELECT _op_check_spec('one page', _op_merge(:'good', '{"lookup": {"more": null, "next": null}}'));
SELECT _op_check_spec('first page', _op_merge(:'good', '{"lookup": {"next": null}}'));
SELECT _op_check_spec('counted pages', _op_merge(:'good', '{"lookup": {"next": {"query": {"after": null, "page": "{page}", "offset": "{seen}"}}}}'));
SELECT _op_check_spec('by id', _op_merge(:'good', '{"lookup": {"path": "/v1/refunds/{external_id}", "items": null, "query": null, "more": null, "next": null}}'));
SELECT _op_check_spec(u, _op_merge(:'good', jsonb_build_object('base_url', u)))
FROM unnest('{https://localhost,https://LOCALHOST:8443,https://127.0.0.1,https://10.1.2.3,https://172.16.0.1,https://192.168.1.1,https://169.254.169.254,https://[::1]:1,https://[fd00::1],https://intranet,https://2130706433}'::text[]) u;
-- out in the world
SELECT _op_check_spec(u, _op_merge(:'good', jsonb_build_object('base_url', u)))
FROM unnest('{https://api.example.com,https://172.32.0.1,https://[2001:db8::1],https://localhost.example.com}'::text[]) u;

-- 11. Parts: by level, not whole.
SELECT _op_check_part('spec of provider "example"', '{"base_url": "https://api.example.com", "namespace": "eu-", "tls": {"ca": "/etc/ca.pem"}, "proxy": "http://proxy:3128", "concurrency": 8, "webhook": {"scheme": "stripe"}, "key": {"ttl": "24 h"}}', true);
SELECT _op_check_part('spec of action "example.refund"', '{"args": {"amount": {"min": 5}}, "redact": ["$.card.number"], "approval": true, "executor": "client", "console": "https://console.example.com/{external_id}", "source": "[D]", "lookup": {"first": true, "pages": 5, "next": {"query": {"page": "{page}"}}}, "poll": {"path": "/x/{external_id}"}}', false);
SELECT _op_check_part('spec of action "example.refund"', '{"namespace": "eu-"}', false);
SELECT _op_check_part('spec of action "example.refund"', '{"tls": {"ca": "/etc/ca.pem"}}', false);
SELECT _op_check_part('spec of action "example.refund"', '{"base_url": "https://evil.example"}', false);
SELECT _op_check_part('spec of action "example.refund"', '{"concurency": 5}', false);
SELECT _op_check_part('spec of action "example.refund"', '{"undo": {"action": "example.charge"}}', false);
SELECT _op_check_part('spec of provider "example"', '{"rate": {"per_second": 20}}', true);
SELECT _op_check_part('spec of provider "example"', '{"concurency": 5}', true);
SELECT _op_check_part('spec of provider "example"', '[]', true);

-- 12. Merging: objects key by key, arrays and scalars replaced.
SELECT _op_merge(a, b) FROM (VALUES
	('{"a": {"b": 1, "c": [1, 2]}, "d": 1}'::jsonb, '{"a": {"c": [3], "e": {}}, "f": 2}'::jsonb),
	('{"a": {"b": 1}}', '{"a": 2}'),
	('{"a": 2}', '{"a": {"b": 1}}'),
	('{"a": {"b": {"c": {"d": 1}}}}', '{"a": {"b": {"c": {"e": 2}}}}'),
	('{"a": {"b": 1}}', '{"a": {"b": null}}'),
	('{"a": 1}', '{}'),
	('{}', '{"a": {}}'),
	('{}', '{}')) m (a, b);

-- 13. Defaults, and what follows from what is said.
SELECT p, v FROM (VALUES
	('{}'::jsonb),
	('{"timeout": {"total": "2 min"}}'),
	('{"key": {"ttl": "1 h", "stores": "all"}}'),
	('{"key": {"ttl": "1 h", "stores": "state"}}'),
	('{"key": {"ttl": "1 h", "stores": "success"}}'),
	('{"key": {"ttl": "1 h", "stores": "all", "guards": false}}'),
	('{"key": {"stores": "all"}}'),
	('{"lookup": {"lag": "90 s"}}')) c (p),
	LATERAL (SELECT jsonb_object_agg(key, value) FROM jsonb_each(_op_promises(p)) WHERE p = '{}' OR NOT _op_promises('{}') @> jsonb_build_object(key, value)) x (v);
SELECT _op_promises('{"key": {"ttl": "1 day 02:00:00.5"}}')->'ttl';
