--
-- Op ids computed from what is done.
--
\set VERBOSITY terse

SELECT op_key('refund', '1043', 'li_2');

SELECT op_key(kind, VARIADIC parts) AS op_id, kind, parts
  FROM (VALUES
	(1, 'refund', ARRAY['1043']),
	(2, 'refund', ARRAY['1043', 'li_2']),
	(3, 'refund', ARRAY['1043-li_2']),
	(4, 'partial-refund', ARRAY['1043']),
	(5, 'partial', ARRAY['refund', '1043']),
	(6, 'refund', ARRAY['50%', 'a']),
	(7, 'refund', ARRAY['50%25', 'a']),
	(8, 'refund', ARRAY['a%2Db']),
	(9, 'refund', ARRAY['a-b']),
	(10, 'refund', ARRAY['-']),
	(11, 'refund', ARRAY['--', '-']),
	(12, 'refund', ARRAY['-', '--']),
	(14, 'refund', ARRAY['two words']),
	(15, 'mail', ARRAY['a@b.example', '2026-11-29']),
	(16, 'mail', ARRAY['run:7']),
	(17, 'order', ARRAY[E'caf\u00e9']),
	(18, 'order', ARRAY[E'cafe\u0301']),
	(19, 'order', ARRAY[E'\u9000\u6b3e', E'\U0001F600']),
	(20, 'order', ARRAY['a', 'A']),
	(21, 'order', ARRAY['~1', 'x'])
  ) AS t(i, kind, parts) ORDER BY i;

-- White space at the ends does not count; 200 characters do.
SELECT op_key(' refund ', E'\t1043\r\n', E'\u00a0li_2\u3000');
SELECT length(op_key('x', repeat('y', 198))) AS characters, length(op_key('x', repeat(E'\u00e9', 198))) AS accents;

-- Composition: all forms of one text are one part.
SELECT a = b AS same, a
  FROM (VALUES
	(1, op_key('k', E'caf\u00e9'), op_key('k', E'cafe\u0301')),
	(2, op_key('k', E'\u1e69'), op_key('k', E's\u0307\u0323')),
	(3, op_key('k', E'\u1e69'), op_key('k', E's\u0323\u0307')),
	(4, op_key('k', E'\uac00'), op_key('k', E'\u1100\u1161')),
	(5, op_key('k', E'\u00c5'), op_key('k', E'\u212b')),
	(6, op_key('k', E'\ufb01'), op_key('k', 'fi')),
	(7, op_key('k', 'K'), op_key('k', 'k'))
  ) AS t(i, a, b) ORDER BY i;

-- Different parts, different ids: all lists of one to three of these.
CREATE TEMP TABLE lists AS
WITH part(p) AS (SELECT unnest(ARRAY['a', 'b', '-', '--', 'a-', '-a', 'a-b', '%', '%2D', '%25', '%252D', 'a b', ':', '1', E'\u00e9']))
SELECT ARRAY[a.p] AS parts FROM part AS a
UNION ALL SELECT ARRAY[a.p, b.p] FROM part AS a, part AS b
UNION ALL SELECT ARRAY[a.p, b.p, c.p] FROM part AS a, part AS b, part AS c;
SELECT count(*) AS lists, count(DISTINCT id) AS ids, count(_op_id_fault(id)) AS faults,
	   count(*) FILTER (WHERE array_length(string_to_array(id, '-'), 1) = cardinality(parts) + 1) AS split_back
  FROM lists, op_key('k', VARIADIC parts) AS id;
SELECT count(*) AS lists, count(DISTINCT op_key(parts[1], VARIADIC parts[2:])) AS ids
  FROM lists WHERE cardinality(parts) > 1;

-- What would let two operations share an id is refused.
SELECT op_key(NULL, 'a');
SELECT op_key('', 'a');
SELECT op_key('refund', NULL);
SELECT op_key('refund', '1043', NULL);
SELECT op_key('refund', '');
SELECT op_key('refund', '1043', E' \t\u00a0');
SELECT op_key('refund', VARIADIC NULL::text[]);
SELECT op_key('refund', VARIADIC '{}'::text[]);
SELECT op_key('refund', VARIADIC ARRAY[['a', 'b'], ['c', 'd']]);

-- What is no op id is refused, with the reason.
\set VERBOSITY default
SELECT op_key('refund', repeat('x', 194));
SELECT op_key('refund', repeat('-', 70));
SELECT op_key('refund', E'a\r\nX-Evil: 1');
SELECT op_key('refund', 'order~2');
SELECT op_key('refund', NULL);
\set VERBOSITY sqlstate
SELECT op_key('refund', NULL);
SELECT op_key('refund', E'a\u0001b');
\set VERBOSITY terse

--
-- The key of one tool call in a run.
--
SELECT op_run_key('run-7', '3', 'refund', '{"amount": 10.00, "order": "1043"}');
SELECT op_run_key('run-7', '3', 'refund', '{"order": "1043", "amount": 1e1}') AS same_meaning;
SELECT op_run_key('run-7', '3', 'refund', '{"order": "1043", "amount": 10}')
	   = encode(sha256('run-7:3:refund:{"amount":10,"order":"1043"}'), 'hex') AS as_documented;
SELECT op_run_key(E'caf\u00e9', ' 3 ', 't', E'["\u20ac"]')
	   = encode(sha256(convert_to(E'caf\u00e9: 3 :t:["\u20ac"]', 'UTF8')), 'hex') AS as_documented;
SELECT count(*) AS calls, count(DISTINCT op_run_key(r, s, t, a::jsonb)) AS keys
  FROM unnest(ARRAY['a', 'b', 'ab', 'a ', '1']) AS r, unnest(ARRAY['a', 'b', '1', '12']) AS s,
	   unnest(ARRAY['a', 'b', '1', '2']) AS t, unnest(ARRAY['{}', '[]', 'null', '1', '"1"', '{"a":1}', '{"a":"1"}']) AS a;

SELECT op_run_key('run:7', '3', 'refund', '{}');
SELECT op_run_key('run-7', '3:', 'refund', '{}');
SELECT op_run_key('run-7', '3', ':', '{}');
SELECT op_run_key('run-7', '', 'refund', '{}');
SELECT op_run_key(NULL, '3', 'refund', '{}');
SELECT op_run_key('run-7', '3', NULL, '{}');
SELECT op_run_key('run-7', '3', 'refund', NULL);
SELECT op_run_key('run-7', '3', 'refund', 'null') IS NOT NULL AS json_null_is_a_value;

-- A run key and an op key are op ids.
SELECT _op_id_fault(op_run_key('run-7', '3', 'refund', '{}')) AS none;

-- The same in every session, so that an index or a generated column may use them.
SELECT proname, provolatile, proparallel, proisstrict
  FROM pg_proc WHERE proname IN ('op_key', 'op_run_key', 'op_canonical_json') ORDER BY proname;
BEGIN;
SELECT op_run_key('r', '1', 't', '{"d": "2026-11-29", "n": 0.1}') AS before \gset
SET LOCAL DateStyle = 'German';
SET LOCAL extra_float_digits = -15;
SET LOCAL standard_conforming_strings = off;
SET LOCAL search_path = pg_catalog, public;
SELECT op_run_key('r', '1', 't', '{"d": "2026-11-29", "n": 0.1}') = :'before' AS unmoved;
ROLLBACK;
