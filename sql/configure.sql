-- Providers, actions and profiles: what is refused, and what is said of it.
SET client_min_messages = warning;
\set SHOW_CONTEXT never

-- Profiles are in no dump, so nobody has one of their own.
INSERT INTO op_profile (name, spec) VALUES ('mine', '{"actions": {"post": {"request": {"path": "/x"}}}}');
UPDATE op_profile SET spec = spec - 'source';
DELETE FROM op_profile WHERE name = 'http';
TRUNCATE op_profile;
SELECT name FROM op_profile ORDER BY name;

-- One that does not exist is called by its name.
SELECT op_provider_add('conf', profile => 'mine');
SELECT op_provider_add('conf', base_url => 'https://127.0.0.1:1');
UPDATE op_provider SET profile = 'mine' WHERE name = 'conf';
UPDATE op_action SET template = 'push' WHERE name = 'conf.post';
-- What an older dump brings: rows that were inserted are not checked.
INSERT INTO op_provider (name, profile, base_url) VALUES ('old', 'mine', 'https://127.0.0.1:1');
INSERT INTO op_action (name, provider, template) VALUES ('old.post', 'old', 'post');
SELECT op_submit('conf-1', 'old.post', '{}');
SELECT op_action_add('old.put', 'old', '{"request": {"path": "/x"}}');
UPDATE op_provider SET profile = 'http' WHERE name = 'old';
SELECT state FROM op_submit('conf-2', 'old.post', '{"path": "x", "body": 1}', not_before => '2100-01-01');
SELECT state FROM op_cancel('conf-2');

DELETE FROM op_action WHERE provider = 'conf';
DELETE FROM op_provider WHERE name = 'conf';
