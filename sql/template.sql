--
-- "{name}" in a spec's strings: what goes out. What an argument holds is data,
-- wherever it stands.
--
\set VERBOSITY terse

-- Text, as in headers.
SELECT template, args, _op_template('text', to_jsonb(template), args::jsonb) AS text
  FROM (VALUES
	(1, 'plain', '{}'),
	(2, '', '{}'),
	(3, '{a}', '{"a": "x"}'),
	(4, 'v-{a}-{b}-{a}', '{"a": "x", "b": "y"}'),
	(5, '{a}{b}', '{"a": "x", "b": "y"}'),
	(6, '{a}', '{"a": 10.00}'),
	(7, '{a}', '{"a": 1e3}'),
	(8, '{a}', '{"a": -0.50}'),
	(9, '{a}', '{"a": true}'),
	(10, '{a}', '{"a": ""}'),
	(11, '{{a}}', '{}'),
	(12, '{{{a}}}', '{"a": "x"}'),
	(13, '{{', '{}'),
	(14, '}}{{', '{}'),
	(15, '{a}', '{"a": "{b} {{ }} {marker}", "b": "no"}'),
	(16, '{first-name} {last_name} {a.b}', '{"first-name": "x", "last_name": "y", "a.b": "z"}'),
	(17, '{a}/ {a}', '{"a": "/ %"}')
  ) AS t(i, template, args) ORDER BY i;

-- Names that are no arguments.
SELECT _op_template('text', '"{op_id} {marker} {external_id} {key}"', '{"op_id": "fake", "key": "fake"}',
					'{"op_id": "refund-1", "marker": "shop:refund-1~2", "external_id": "re_1", "key": "k"}');

-- Paths and queries: a value stays in its place.
SELECT args->>'a' AS value, _op_template('path', '"/v1/x/{a}/y"', args) AS path, _op_template('query', '"a={a}"', args) AS query
  FROM unnest(ARRAY['"re_1"', '"a/b"', '"a b"', '"a?b=c#d"', '"a&b=c"', '"100%"', '"%2e%2e"', '"..."', '".a"', '"a.."', '"-._~"',
	'"A\\B"', '"\u00e9"', '"\ud83d\ude00"', '"a\r\nb"', '"@evil.example:1"', '"//evil"', '"+"', '"[]"', '";,:!$''()*"', '10.00', 'false'
  ]) WITH ORDINALITY AS t(a, i), jsonb_build_object('a', a::jsonb) AS args ORDER BY i;

-- A path keeps its shape, or there is none.
SELECT _op_template('path', '"/v1/x/{a}"', '{"a": ""}');
SELECT _op_template('path', '"/v1/x_{a}"', '{"a": ""}');
SELECT _op_template('path', '"/v1/x/{a}"', '{"a": "."}');
SELECT _op_template('path', '"/v1/x/{a}"', '{"a": ".."}');
SELECT _op_template('path', '"/v1/{a}/x"', '{"a": ".."}');
SELECT _op_template('path', '"/v1/{a}{b}/x"', '{"a": ".", "b": "."}');
SELECT _op_template('path', '"/v1/.{a}?x=1"', '{"a": "."}');
SELECT _op_template('path', '"{a}"', '{"a": ".."}');
SELECT _op_template('path', '"/v1/x?a={a}&b=.."', '{"a": ".."}');
SELECT _op_template('query', '"a={a}"', '{"a": ""}');

-- A form: as Stripe reads it.
SELECT template, args, _op_template('form', template::jsonb, args::jsonb, '{"marker": "refund 1~2"}') AS form
  FROM (VALUES
	(1, '{}', '{}'),
	(2, '{"a": "x"}', '{}'),
	(3, '{"b": "2", "a": "1", "aa": "3"}', '{}'),
	(4, '{"amount": "{amount}", "metadata": {"op_id": "{marker}"}}', '{"amount": 38000}'),
	(5, '{"amount": "{amount}"}', '{"amount": 10.00}'),
	(6, '{"amount": "{amount}"}', '{"amount": "10.00"}'),
	(7, '{"a": "{a}", "b": true, "c": false}', '{"a": true}'),
	(8, '{"a": null, "b": "{b}", "c": 1}', '{"b": null}'),
	(9, '{"a": "{a}", "b": "{b}"}', '{"b": 1}'),
	(10, '{"a": {"x": "{a}"}, "b": 1}', '{}'),
	(11, '{"expand": ["x", "{a}", "{b}", null, "y"]}', '{"b": "B"}'),
	(12, '{"a": {"b": {"c": [{"d": 1}, {"d": 2}]}}}', '{}'),
	(13, '{"items": "{items}"}', '{"items": [{"id": "p 1", "n": 2}, {"id": "p&2", "n": 1.50}]}'),
	(14, '{"metadata": "{m}"}', '{"m": {"k e": "v=w", "z": null, "n": {"x": []}}}'),
	(15, '{"metadata": "{m}"}', '{"m": {"a": "{marker}", "{b}": "{{"}}'),
	(16, '{"a": "{a}"}', '{"a": ""}'),
	(17, '{"a": "{a}"}', '{"a": "a+b c&d=e%f\u00e9\r\n[x]"}'),
	(18, '{"a&b": 1, "c d": 2, "metadata[x]": 3}', '{}'),
	(19, '{"a": "n-{a}-{b}"}', '{"a": 1.0, "b": false}'),
	(20, '{"a": [], "b": {}, "c": [[1, 2], [3]]}', '{}')
  ) AS t(i, template, args) ORDER BY i;
SELECT _op_template('form', '{"metadata": "{m}"}', '{"m": {"x][amount": 1}}');
SELECT _op_template('form', '{"metadata": "{m}"}', '{"m": {"": 1}}');
SELECT _op_template('form', '["a"]', '{}');
SELECT _op_template('form', '"a"', '{}');

-- JSON: a placeholder that stands alone keeps its type.
SELECT template, args, _op_template('json', template::jsonb, args::jsonb, '{"marker": "refund \"1\""}') AS json
  FROM (VALUES
	(1, '{}', '{}'),
	(2, '[]', '{}'),
	(3, '"x"', '{}'),
	(4, 'null', '{}'),
	(5, '12.50', '{}'),
	(6, '"{a}"', '{"a": {"b": [1, 2.0, null, "x"]}}'),
	(7, '{"a": "{a}", "t": "n {a}"}', '{"a": 10.00}'),
	(8, '{"a": "{a}"}', '{"a": "10.00"}'),
	(9, '{"a": "{a}"}', '{"a": true}'),
	(10, '{"a": "{a}", "b": null}', '{"a": null}'),
	(11, '{"a": "{a}", "b": 1}', '{}'),
	(12, '{"o": {"a": "{a}"}, "l": ["{a}", 1, "{b}"]}', '{"b": 2}'),
	(13, '{"m": "{marker}", "a": "{a}"}', '{"a": "q\"\\\n\u0001\u00e9"}'),
	(14, '{"a": "{a}"}', '{"a": {"x": "{marker}", "y": "}{"}}'),
	(15, '{"q": "mutation {{ a(id: \"{a}\") }}"}', '{"a": "g"}'),
	(16, '{"bb": 1, "a": [{"z": 1, "y": [[]]}], "c": {}}', '{}'),
	(17, '{"{a}": 1}', '{"a": "x"}'),
	(18, '{"n": "{n}"}', '{"n": 12345678901234567890.123456789012345678900}'),
	(19, '{"n": [1e2, -0, 1.0]}', '{}')
  ) AS t(i, template, args) ORDER BY i;

-- What comes out of JSON is JSON, and means what went in.
SELECT count(*) AS templates, bool_and(_op_template('json', jsonb_build_array('{a}', 'x'), jsonb_build_object('a', j))::jsonb = jsonb_build_array(j, 'x')) AS same
  FROM (SELECT to_jsonb(chr(c) || '{' || chr(c)) AS j FROM generate_series(1, 300) AS c
		UNION ALL SELECT jsonb_build_object(chr(c), jsonb_build_array(c, c / 7.0, NULL)) FROM generate_series(1, 300) AS c) AS t;

-- Missing, null or of the wrong shape among text.
SELECT _op_template('text', '"a {b} c"', '{}');
SELECT _op_template('text', '"{b}"', '{"a": 1}');
SELECT _op_template('form', '{"x": "a {b}"}', '{}');
SELECT _op_template('json', '{"x": ["a {b}"]}', '{}');
SELECT _op_template('json', '"{b}"', '{}');
SELECT _op_template('text', '"{b}"', '{"b": null}');
SELECT _op_template('path', '"/{b}"', '{"b": [1]}');
SELECT _op_template('json', '"x {b}"', '{"b": {"c": 1}}');
SELECT _op_template('json', '"{marker}"', '{"marker": "mine"}');
SELECT _op_template('text', '"{b}"', '[1]');

-- Braces that belong to nothing.
SELECT _op_template('text', '"{"', '{}');
SELECT _op_template('text', '"a } b"', '{}');
SELECT _op_template('text', '"{}"', '{"": 1}');
SELECT _op_template('text', '"{a"', '{"a": 1}');
SELECT _op_template('text', '"{two words}"', '{"two words": 1}');
SELECT _op_template('text', '"{a{b}}"', '{"b": 1}');
SELECT _op_template('json', '{"q": "query { id }"}', '{}');
SELECT _op_template('names', '{"q": "a}"}', '{}');
\set VERBOSITY sqlstate
SELECT _op_template('text', '"{"', '{}');
SELECT _op_template('text', '"{a}"', '{}');
\set VERBOSITY terse

-- The names in use, each once.
SELECT template, _op_template('names', template::jsonb, '{}') AS names
  FROM unnest(ARRAY['"x"', '1', '[]', '"{a}"', '"{a} {{b}} {c}{a}"', '{"{k}": "{v}", "n": 1, "l": ["{a}", {"x": "{v}{marker}"}]}'
  ]) WITH ORDINALITY AS t(template, i) ORDER BY i;
