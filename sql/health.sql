-- What op_health() answers is read at night: each check once, with a hint where
-- something is wrong.
SELECT check_name, status, hint IS NOT NULL AS has_hint FROM op_health() WHERE check_name NOT IN ('worker', 'turns') ORDER BY check_name, detail;

-- A pause that a person wanted is no alarm; one that the ledger had to make is.
CREATE VIEW pg_temp.pauses AS
SELECT h.status, replace(replace(h.detail, p.paused_at::text, '…'), 'by ' || session_user::text, 'by me') AS detail, h.hint
  FROM op_health() AS h JOIN op_provider AS p ON h.detail LIKE '%provider "' || p.name || '"%' WHERE h.check_name = 'provider';
SELECT * FROM pg_temp.pauses ORDER BY detail;
SELECT replace(actor, session_user::text, 'me') AS actor, event, note FROM op_event WHERE event LIKE 'provider%' ORDER BY id;
BEGIN;
UPDATE op_provider SET paused_by = NULL, paused_note = 'http_401, seen by "x"' WHERE name = 'shop';
SELECT * FROM pg_temp.pauses ORDER BY detail;
ROLLBACK;

-- What operations refer to cannot be deleted.
\set VERBOSITY terse
DELETE FROM op_provider WHERE name = 'shop';
DELETE FROM op_action WHERE name = 'shop.order';
\set VERBOSITY default
