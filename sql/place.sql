-- Where an operation was sent is frozen with it: address and namespace as they are, whose
-- account and how it is asked as a digest. What another place shows proves nothing.
SET client_min_messages = warning;
SELECT op_provider_add('bank2', base_url => 'https://bank.example.com/', secret => 'file:a.key', spec => '{"namespace": "ours-", "auth": {"scheme": "bearer"},
	"key": {"in": "header", "ttl": "24 h", "stores": "all"}, "retry": {"initial": "10 min", "max": "10 min", "jitter": 0}}');
SELECT op_action_add('bank2.pay', 'bank2', '{"executor": "client",
	"args": {"iban": {"type": "text"}},
	"request": {"method": "POST", "path": "/payments", "json": {"iban": "{iban}", "ref": "{marker}"}},
	"object": {"id": "$.id", "marker": "$.ref"}}');
DELETE FROM op_action WHERE name = 'bank2.post';
RESET client_min_messages;

-- A place: account, else the secret's reference; lookup, object, success.object, proxy and tls.
-- Not how long something takes, nor base_url and namespace.
SELECT change, _op_place(spec || change::jsonb) = _op_place(spec) AS same_place
  FROM (VALUES ('{"secret": "file:k", "object": {"id": "$.id"}, "lookup": {"path": "/l"}}'::jsonb)) AS s (spec), unnest(ARRAY[
	'{}', '{"secret": "file:other"}', '{"account": "file:k"}', '{"account": "acme"}', '{"account": "acme", "secret": "file:other"}',
	'{"lookup": {"path": "/m"}}', '{"lookup": {"path": "/l", "query": {"a": "1"}}}', '{"object": {"id": "$.id", "marker": "$.m"}}',
	'{"proxy": "http://p:1"}', '{"tls": {"ca": "/ca"}}', '{"success": {"object": "$.o"}}',
	'{"lookup": {"path": "/l", "lag": "5 s", "give_up": "1 h", "pages": 3}}', '{"base_url": "https://x"}', '{"namespace": "n"}',
	'{"success": {"if": "$.ok == true"}}', '{"retry": {"attempts": 9}}']) AS change;
SELECT _op_place('{"account": "acme", "secret": "file:a"}') = _op_place('{"account": "acme", "secret": "file:b"}') AS the_account_counts,
	_op_place('{"account": "file:a"}') = _op_place('{"secret": "file:a"}') AS a_reference_is_a_word;

-- What is frozen.
SELECT (op_submit(id, 'bank2.pay', '{"iban": "1"}')).state FROM unnest('{pl1,pl2,pl3}'::text[]) AS id;
SELECT r.base_url, r.namespace, o.place FROM op_request AS r JOIN op_operation AS o USING (op_id) WHERE op_id = 'pl1';
SELECT decision, marker FROM op_claim('pl1');
SELECT decision FROM op_claim('pl2');
SELECT place = _op_place(_op_spec('bank2.pay')) AS here FROM op_operation WHERE op_id = 'pl1';
SELECT state, reason FROM op_report('pl1', 1, error => 'socket hang up');

-- Another address and another namespace alone: nothing is in doubt, and nothing is said.
UPDATE op_provider SET base_url = 'https://two.example.com', spec = jsonb_set(spec, '{namespace}', '"new-"') WHERE name = 'bank2';
UPDATE op_due SET due_at = now() - interval '1 s' WHERE op_id = 'pl1';
SELECT decision, marker, url FROM op_claim('pl1');
SELECT state, external_id FROM op_report('pl1', 2, 200, body => '{"id": "pay_1", "ref": "ours-pl1"}');

-- Another account: said once for all, and of each. What was not sent yet goes to the new one.
SELECT state, reason FROM op_report('pl2', 1, error => 'socket hang up');
UPDATE op_provider SET secret = 'file:b.key' WHERE name = 'bank2';
UPDATE op_due SET due_at = now() - interval '1 s' WHERE op_id = 'pl2';
SELECT decision, state, reason, retry_after_s > 500 AS later FROM op_claim('pl2');
SELECT says FROM op_explain('pl2') WHERE topic = 'place';
SELECT status, regexp_replace(detail, 'oldest at .*: ', 'oldest at …: ') AS detail, hint FROM op_health() WHERE check_name = 'place';
SELECT decision, marker, url FROM op_claim('pl3');
-- The answer of a request that is under way is the answer of where it went.
UPDATE op_provider SET account = 'third' WHERE name = 'bank2';
SELECT state, reason FROM op_report('pl3', 1, 422);
-- Back, and it goes on.
UPDATE op_provider SET secret = 'file:a.key' WHERE name = 'bank2' RETURNING account;
UPDATE op_due SET due_at = now() - interval '1 s' WHERE op_id = 'pl2';
SELECT decision, attempt FROM op_claim('pl2');
SELECT count(*) FROM op_health() WHERE check_name = 'place';
SELECT state, reason FROM op_report('pl2', 2, error => 'socket hang up');

-- The same account's new key: nothing is in doubt.
SELECT op_provider_rotate('bank2', 'file:a2.key');
SELECT secret, account FROM op_provider WHERE name = 'bank2';
SELECT op_provider_rotate('bank2', 'file:a3.key');
SELECT secret, account FROM op_provider WHERE name = 'bank2';
SELECT event, note, actor = current_user AS by_me FROM op_event WHERE event = 'provider_rotated' ORDER BY id;
UPDATE op_due SET due_at = now() - interval '1 s' WHERE op_id = 'pl2';
SELECT decision, attempt FROM op_claim('pl2');
SELECT state, reason FROM op_report('pl2', 3, error => 'socket hang up');
-- By hand: the account that is set with the secret counts, even as it was; without it, it is the new secret's.
UPDATE op_provider SET secret = 'file:a4.key', account = 'file:a.key' WHERE name = 'bank2' RETURNING account;
UPDATE op_provider SET secret = 'file:a4.key' WHERE name = 'bank2' RETURNING account;
UPDATE op_provider SET secret = 'file:c.key' WHERE name = 'bank2' RETURNING account;
UPDATE op_provider SET secret = 'file:a4.key', account = 'file:a.key' WHERE name = 'bank2' RETURNING account;
-- Where the secret is written in the spec, too.
UPDATE op_provider SET spec = spec || '{"secret": "file:s.key"}' WHERE name = 'bank2' RETURNING account;
UPDATE op_provider SET spec = spec || '{"secret": "file:s.key"}', account = 'file:a.key' WHERE name = 'bank2';
SELECT op_provider_rotate('bank2', 'file:s2.key');
SELECT secret, spec ->> 'secret' AS in_spec, account, _op_spec('bank2.pay') ->> 'account' AS counts FROM op_provider WHERE name = 'bank2';

-- Another way to ask is another place, too.
UPDATE op_action SET spec = jsonb_set(spec, '{object,marker}', '"$.reference"') WHERE name = 'bank2.pay';
UPDATE op_action SET spec = jsonb_set(spec, '{object,marker}', '"$.ref"') WHERE name = 'bank2.pay';
UPDATE op_action SET spec = spec || '{"approval": true}' WHERE name = 'bank2.pay';

-- A person may do what a person may.
UPDATE op_provider SET account = 'elsewhere' WHERE name = 'bank2';
UPDATE op_operation SET last_sent_at = now() - interval '2 h', lease_until = now() - interval '2 h' WHERE op_id = 'pl2';
SELECT state FROM op_resolve('pl2', 'failed', note => 'looked at the old account');
-- A new generation goes where the provider is now, under the namespace that it always had.
SELECT state FROM op_reissue('pl2', 'once more');
SELECT generation, base_url, namespace, url FROM op_request WHERE op_id = 'pl2' ORDER BY 1;
SELECT decision, marker, key FROM op_claim('pl2');
SELECT place = _op_place(_op_spec('bank2.pay')) AS here FROM op_operation WHERE op_id = 'pl2';
SELECT state, external_id FROM op_report('pl2', 4, 200, body => '{"id": "pay_2", "ref": "ours-pl2~2"}');

-- What is wrong is said.
SELECT op_provider_rotate('nobody', 'file:x');
SELECT op_provider_rotate('bank2', NULL);
SELECT op_provider_rotate('bank2', 'sk_live_1');
SELECT op_provider_add('bank3', base_url => 'https://bank.example.com', spec => '{"account": "acme"}');
SET client_min_messages = warning;
SELECT op_provider_add('bank3', base_url => 'https://bank.example.com', secret => 'file:x', account => 'acme');
RESET client_min_messages;
SELECT account FROM op_provider WHERE name = 'bank3';

-- Who administers may do it, and nobody else.
CREATE ROLE op_bank_admin;
CREATE ROLE op_bank_night;
SELECT op_grant('op_bank_admin', 'admin'), op_grant('op_bank_night', 'operate');
\set VERBOSITY terse
SET ROLE op_bank_night;
SELECT op_provider_rotate('bank2', 'file:x');
SELECT count(*) FROM op_health() WHERE check_name = 'place';
SET ROLE op_bank_admin;
SELECT op_provider_rotate('bank2', 'file:s3.key');
UPDATE op_provider SET base_url = 'https://three.example.com' WHERE name = 'bank2';
UPDATE op_provider SET spec = '{"nonsense": 1}' WHERE name = 'bank2';
RESET ROLE;
\set VERBOSITY default
DROP OWNED BY op_bank_admin, op_bank_night;
DROP ROLE op_bank_admin, op_bank_night;
