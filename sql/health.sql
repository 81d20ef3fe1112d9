-- What op_health() answers is read at night: each check once, with a hint where
-- something is wrong.
SELECT check_name, status, hint IS NOT NULL AS has_hint FROM op_health() WHERE check_name NOT IN ('worker', 'turns') ORDER BY check_name, detail;
SELECT regexp_replace(detail, 'since .*:', 'since …:') AS detail, hint FROM op_health() WHERE check_name = 'provider' AND detail LIKE '%regression%' ORDER BY 1;

-- What operations refer to cannot be deleted.
\set VERBOSITY terse
DELETE FROM op_provider WHERE name = 'shop';
DELETE FROM op_action WHERE name = 'shop.order';
\set VERBOSITY default
