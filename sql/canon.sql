--
-- One form for one meaning: canonical JSON, op ids, markers, keys; and JSON read
-- from bytes that may be anything.
--

-- Numbers: all digits, one form each.
SELECT n AS given, op_canonical_json(n::jsonb) AS canonical
  FROM unnest(ARRAY[
	'10', '10.00', '1e1', '1E+1', '100e-1', '0.1e2', '-10', '-10.0',
	'0', '-0', '0.0', '-0.000', '0e5', '-0e-5',
	'0.1', '0.10', '1e-1', '1.5', '150e-2', '1e-7', '0.0000001', '123.4560',
	'1e21', '1000000000000000000000', '9007199254740993', '9007199254740993.0',
	'0.1000000000000000055511151231257827', '12345678901234567890123456789.000000000000000000001'
  ]) WITH ORDINALITY AS t(n, i) ORDER BY i;

-- No digit is lost, however many there are.
SELECT e AS exponent,
	   op_canonical_json(('1e' || e)::jsonb) = '1' || repeat('0', e) AS large,
	   op_canonical_json(('1e-' || e)::jsonb) = '0.' || repeat('0', e - 1) || '1' AS small
  FROM unnest(ARRAY[1, 15, 16, 17, 100, 308, 309, 1000, 16000]) AS e;

-- Strings: nothing is escaped that need not be.
SELECT s AS given, op_canonical_json(s::jsonb) AS canonical
  FROM unnest(ARRAY[
	'""', '"a"', '"\u0061"', '"\/"', '"/"', '"\""', '"\\"', '"\b\f\n\r\t"', '"\u0008\u000c\u000A\u000D\u0009"',
	'"\u0001\u001f"', '"\u001F"', '"\u007f"', '"\u00e9"', '"\u20ac"', '"\ud83d\ude00"', '"<>&''"', '"%{}"'
  ]) WITH ORDINALITY AS t(s, i) ORDER BY i;

-- Every control character, and every invisible one, by itself.
SELECT count(*) AS characters,
	   count(DISTINCT op_canonical_json(j)) AS forms,
	   bool_and(op_canonical_json(j)::jsonb = j) AS read_back
  FROM (SELECT to_jsonb(chr(c)) AS j FROM generate_series(1, 300) AS c
		UNION ALL SELECT to_jsonb(chr(c)) FROM generate_series(8190, 8300) AS c) AS t;

-- At every place among others, alone and twice: as PostgreSQL escapes it.
SELECT count(*) AS strings, bool_and(op_canonical_json(to_jsonb(s)) = to_jsonb(s)::text) AS escaped
  FROM (SELECT repeat('x', before) || chr(c) || repeat(filler, behind) || chr(c) || 'z' AS s
		  FROM generate_series(1, 300) AS c, generate_series(0, 17) AS before, generate_series(0, 9) AS behind,
			   unnest(ARRAY['y', '!', chr(233)]) AS filler) AS t;

-- Keys: in the order of their code points, the last of equal ones stays.
SELECT j AS given, op_canonical_json(j::jsonb) AS canonical
  FROM unnest(ARRAY[
	'{}', '[]', '{"a": {}}', '[ [ ] ]', 'null', ' true ', 'false', '[true, false, null]',
	'{"b": 1, "a": 2}', '{"aa": 1, "b": 2, "a": 3}', '{"a": 1, "a": 2}', '{"b": {"d": 1, "c": 2}, "a": [3, {"z": 0, "y": 1}]}',
	'{"": 0, "a": 1}', '{"a": 1, "A": 2, "_": 3, "0": 4}', '{"10": 1, "9": 2}',
	'{"\u00e9": 1, "z": 2, "e": 3}', '{"\uff5e": 1, "\ud83d\ude00": 2, "\u00e9": 3, "z": 4}',
	'{"ab": 1, "a\u0001": 2, "a": 3}', '[3, 1, 2]', '{"k": "a  b"}', '"  "'
  ]) WITH ORDINALITY AS t(j, i) ORDER BY i;

-- Equal values, and only they, have equal texts; the text reads back as the value.
CREATE TEMP TABLE atoms AS
SELECT a FROM unnest(ARRAY[
	'null', 'true', 'false', '0', '-0', '0.0', '1', '1.0', '1e0', '10', '1e1', '"1"', '""', '"a"', '"\u0061"', '"A"',
	'[]', '{}', '[1]', '[1.0]', '[[1]]', '{"a":1}', '{"a":1.00}', '{"a":"1"}', '{"a":null}', '[null]', '"\u00e9"', '"e\u0301"'
  ]) AS a;
CREATE TEMP TABLE composed AS
SELECT format(f, x.a, y.a)::jsonb AS j
  FROM atoms AS x, atoms AS y,
	   unnest(ARRAY['[%s, %s]', '{"x": %s, "y": %s}', '{"y": %2$s, "x": %1$s}', '{"xx": [%s], "x": {"k": %s}}', '[[%s], %s]']) AS f;
SELECT count(*) AS given, count(DISTINCT j) AS meanings, count(DISTINCT op_canonical_json(j)) AS forms,
	   count(DISTINCT (j, op_canonical_json(j))) AS pairs,
	   bool_and(op_canonical_json(j)::jsonb = j) AS read_back
  FROM composed;

--
-- Op ids.
--
SELECT name, _op_id_fault(id) AS fault
  FROM (VALUES
	(1, 'plain', 'refund-1043-li_2'),
	(2, 'one character', 'r'),
	(3, 'colon and blanks', 'run 7: step 3'),
	(4, 'two blanks', 'a  b'),
	(5, 'accent', E'caf\u00e9'),
	(6, 'accent, composed by two', E'cafe\u0301'),
	(7, 'emoji', E'\U0001F600'),
	(8, 'family with joiners', E'\U0001F468\u200D\U0001F469\u200D\U0001F467'),
	(9, 'Chinese', E'\u9000\u6b3e-1043'),
	(10, 'Arabic', E'\u0645\u0631\u062d\u0628\u0627'),
	(11, 'every ASCII sign', '!"#$%&''()*+,-./:;<=>?@[\]^_`{|}~'),
	(12, 'tilde', '~'),
	(13, 'tilde first', '~2x'),
	(14, 'tilde and a word', 'refund~two'),
	(15, 'digits', '12345'),
	(16, '200 characters', repeat('x', 200)),
	(17, '200 characters, 800 bytes', repeat(E'\U0001F600', 200)),
	(20, 'empty', ''),
	(21, '201 characters', repeat('x', 201)),
	(22, '300 characters', repeat('x', 300)),
	(23, '201 characters, 402 bytes', repeat(E'\u00e9', 201)),
	(24, 'blank', ' '),
	(25, 'leading blank', ' refund'),
	(26, 'trailing blank', 'refund '),
	(27, 'trailing no-break space', E'refund\u00a0'),
	(28, 'leading ideographic space', E'\u3000refund'),
	(29, 'carriage return, line feed', E'refund\r\nX-Evil: 1'),
	(30, 'line feed', E'refund\n'),
	(31, 'carriage return', E'ref\rund'),
	(32, 'tab', E'ref\tund'),
	(33, 'escape', E'\u001b[31mred'),
	(34, 'delete', E'ref\u007fund'),
	(35, 'C1 control', E'ref\u0085und'),
	(36, 'line separator', E'ref\u2028und'),
	(37, 'right-to-left override', E'ref\u202eund'),
	(38, 'isolate', E'ref\u2066und'),
	(39, 'zero width space', E'ref\u200bund'),
	(40, 'byte order mark', E'\uFEFFrefund'),
	(41, 'soft hyphen', E're\u00adfund'),
	(42, 'not a character', E'ref\uFFFFund'),
	(43, 'like a generation', 'refund~2'),
	(44, 'like generation 1', 'refund~1'),
	(45, 'like a generation, zeros', 'refund~007'),
	(46, 'nothing but a generation', '~2'),
	(47, 'two tildes', 'refund~~3')
  ) AS t(i, name, id) ORDER BY i;

-- No control character passes, in whatever place.
SELECT count(*) AS ids, count(_op_id_fault(id)) AS refused
  FROM generate_series(1, 159) AS c,
	   unnest(ARRAY['%s', 'a%s', '%sa', 'a%sb']) AS f,
	   format(f, chr(c)) AS id
 WHERE c < 32 OR c > 126;

--
-- Markers: what is written, and read back.
--
SELECT namespace, op_id, generation, marker, _op_marker_generation(marker, namespace, op_id) AS read_back
  FROM (VALUES
	(1, NULL, 'refund-1', 1), (2, '', 'refund-1', 1), (3, NULL, 'refund-1', 2), (4, NULL, 'refund-1', 10),
	(5, NULL, 'refund-1', 2147483647), (6, 'shop:', 'refund-1', 1), (7, 'shop:', 'refund-1', 1001),
	(8, 'shop', 'refund-1', 2), (9, 'a~2', 'b', 1), (10, NULL, 'run 7: step 3', 3), (11, NULL, E'caf\u00e9', 2)
  ) AS t(i, namespace, op_id, generation), _op_marker(namespace, op_id, generation) AS marker
 ORDER BY i;

-- What is no marker of ours.
SELECT marker, namespace, op_id, _op_marker_generation(marker, namespace, op_id) AS generation
  FROM (VALUES
	(1, 'refund-1', NULL, 'refund-1'), (2, 'refund-1~2', NULL, 'refund-1'),
	(10, 'refund-1~1', NULL, 'refund-1'), (11, 'refund-1~0', NULL, 'refund-1'), (12, 'refund-1~02', NULL, 'refund-1'),
	(13, 'refund-1~', NULL, 'refund-1'), (14, 'refund-1~-2', NULL, 'refund-1'), (15, 'refund-1~+2', NULL, 'refund-1'),
	(16, 'refund-1~2 ', NULL, 'refund-1'), (17, 'refund-1~ 2', NULL, 'refund-1'), (18, 'refund-1~2x', NULL, 'refund-1'),
	(19, 'refund-1~2~3', NULL, 'refund-1'), (20, 'refund-1~2147483648', NULL, 'refund-1'),
	(21, 'refund-1~18446744073709551618', NULL, 'refund-1'), (22, 'refund-1~99999999999999999999999999', NULL, 'refund-1'),
	(23, 'refund-12', NULL, 'refund-1'), (24, 'refund-', NULL, 'refund-1'), (25, '', NULL, 'refund-1'),
	(26, 'Refund-1', NULL, 'refund-1'), (27, ' refund-1', NULL, 'refund-1'), (28, 'refund-1 ', NULL, 'refund-1'),
	(29, 'refund-1~2.0', NULL, 'refund-1'), (30, 'refund-1~2e1', NULL, 'refund-1'), (31, 'refund-1-2', NULL, 'refund-1'),
	(32, 'refund-1', 'shop:', 'refund-1'), (33, 'shop:refund-1', NULL, 'refund-1'), (34, 'shop2:refund-1', 'shop:', 'refund-1'),
	(35, 'shop:shop:refund-1', 'shop:', 'refund-1'), (36, 'SHOP:refund-1', 'shop:', 'refund-1'), (37, 'shop:', 'shop:', 'refund-1'),
	(38, E'cafe\u0301', NULL, E'caf\u00e9')
  ) AS t(i, marker, namespace, op_id) ORDER BY i;

-- Every marker names one operation and one generation.
CREATE TEMP TABLE ids AS
SELECT p || n || s AS op_id
  FROM unnest(ARRAY['refund-', 'a', 'a-', '~', E'\u00e9', 'x y ', '']) AS p, generate_series(1, 30) AS n,
	   unnest(ARRAY['', '~', '~x', '-li_2', '%', ':', ':1']) AS s;
SELECT count(*) AS pairs,
	   count(*) FILTER (WHERE _op_marker_generation(m, 'shop:', b.op_id) > 0) AS ours,
	   count(*) FILTER (WHERE _op_marker_generation(m, 'shop:', b.op_id) > 0 AND (a.op_id <> b.op_id OR _op_marker_generation(m, 'shop:', b.op_id) <> g)) AS mistaken
  FROM ids AS a, ids AS b, unnest(ARRAY[1, 2, 20]) AS g, _op_marker('shop:', a.op_id, g) AS m
 WHERE a.op_id LIKE b.op_id || '%' OR right(md5(a.op_id || '/' || b.op_id), 1) = '0';

--
-- Idempotency keys.
--
SELECT format, max, op_id, generation AS g, _op_idempotency_key(format, max, namespace, op_id, generation) AS key
  FROM (VALUES
	(1, 'raw', 255, NULL, 'refund-1043-li_2', 1),
	(2, 'raw', 255, NULL, 'refund-1043-li_2', 2),
	(3, 'raw', 255, 'shop:', 'refund-1043-li_2', 2),
	(4, 'raw', 16, NULL, 'refund-1043-li_2', 1),
	(5, 'raw', 15, NULL, 'refund-1043-li_2', 1),
	(6, 'raw', 0, NULL, 'refund-1043-li_2', 1),
	(7, 'raw', 45, NULL, 'refund 1043', 1),
	(8, 'raw', 255, NULL, 'refund 1043', 1),
	(9, 'raw', 255, NULL, E'caf\u00e9', 1),
	(10, 'raw', 255, NULL, E'cafe\u0301', 1),
	(11, 'raw', 255, NULL, E'\U0001F600', 1),
	(12, 'raw', 255, NULL, '!"#$%&''()*+,-./:;<=>?@[\]^_`{|}~', 1),
	(13, 'raw', 255, NULL, 'r', 1),
	(14, 'raw', 255, NULL, 'Refund', 1),
	(15, 'raw', 255, NULL, 'refund', 1),
	(20, 'quoted', 255, NULL, 'refund-1043-li_2', 1),
	(21, 'quoted', 255, NULL, 'run 7: step 3', 2),
	(22, 'quoted', 255, NULL, 'say "no" \ yes', 1),
	(23, 'quoted', 18, NULL, 'refund-1043-li_2', 1),
	(24, 'quoted', 17, NULL, 'refund-1043-li_2', 1),
	(25, 'quoted', 255, NULL, E'caf\u00e9', 1),
	(30, 'uuid', 36, NULL, 'refund-1043-li_2', 1),
	(31, 'uuid', 255, NULL, 'refund-1043-li_2', 1),
	(32, 'uuid', 36, NULL, 'refund-1043-li_2', 2),
	(33, 'uuid', 36, 'shop:', 'refund-1043-li_2', 1),
	(40, 'sha256', 64, NULL, 'refund-1043-li_2', 1),
	(41, 'sha256', 255, NULL, 'refund-1043-li_2', 2),
	(42, 'sha256', 45, NULL, 'refund-1043-li_2', 1)
  ) AS t(i, format, max, namespace, op_id, generation) ORDER BY i;

-- A mapped key is the sha256 of the marker.
SELECT _op_idempotency_key('raw', 255, NULL, E'caf\u00e9', 2) = encode(sha256(convert_to(E'caf\u00e9~2', 'UTF8')), 'hex') AS raw,
	   _op_idempotency_key('sha256', 40, 'n:', 'a', 1) = left(encode(sha256('n:a'), 'hex'), 40) AS cut,
	   _op_idempotency_key('quoted', 255, NULL, E'\u00e9', 1) = '"' || encode(sha256(convert_to(E'\u00e9', 'UTF8')), 'hex') || '"' AS quoted;

-- An id that looks like a mapped key is mapped too, so it cannot meet the other.
SELECT max, _op_idempotency_key('raw', max, NULL, spy, 1) = spy AS raw_same,
	   _op_idempotency_key('quoted', max + 2, NULL, spy, 1) = '"' || spy || '"' AS quoted_same
  FROM unnest(ARRAY[255, 64, 45, 32]) AS max, _op_idempotency_key('raw', max, NULL, E'caf\u00e9', 1) AS spy;

-- Different operations have different keys, whatever the format; every key fits
-- and is fit for a header.
SELECT format, max, count(*) AS markers, count(DISTINCT key) AS keys, max(length(key)) <= max AS fits,
	   bool_and(key ~ '^[\x20-\x7e]+$') AS printable, bool_and(key !~ '\s' OR format = 'quoted') AS no_blank
  FROM unnest(ARRAY['raw', 'quoted', 'uuid', 'sha256']) AS format, unnest(ARRAY[36, 45, 64, 255]) AS max,
	   ids, generate_series(1, 3) AS g, _op_idempotency_key(format, max, NULL, op_id, g) AS key
 GROUP BY format, max ORDER BY format, max;

SELECT count(*) AS uuids,
	   bool_and(key ~ '^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$') AS version_4
  FROM ids, _op_idempotency_key('uuid', 36, NULL, op_id, 1) AS key;

SELECT _op_idempotency_key('md5', 255, NULL, 'a', 1);

--
-- Bodies that may be anything. The bytes as they came are kept elsewhere.
--
CREATE TEMP TABLE bodies (i int, name text, body bytea);
INSERT INTO bodies VALUES
	(1, 'an object', '{"id": "re_1", "amount": 10.00}'),
	(2, 'white space around', E' \n\t{"id": 1}\r\n '),
	(3, 'byte order mark', '\xefbbbf7b226964223a317d'),
	(4, 'two byte order marks', '\xefbbbfefbbbf7b7d'),
	(5, 'byte order mark alone', '\xefbbbf'),
	(6, 'nothing', ''),
	(7, 'white space alone', '  '),
	(8, 'null', 'null'),
	(9, 'a number', '-12.50'),
	(10, 'a string', '"re_1"'),
	(11, 'a word', 'OK'),
	(12, 'capitals', 'True'),
	(13, 'single quotes', '{''id'': 1}'),
	(14, 'comma at the end', '[1, 2, ]'),
	(15, 'a comment', '[1] // one'),
	(16, 'two documents', '{"id": 1}{"id": 2}'),
	(17, 'cut in an object', '{"id": "re_1", "amount"'),
	(18, 'cut in a string', '{"id": "re_'),
	(19, 'cut in an escape', '{"id": "re_\\'),
	(20, 'cut in a code', '{"id": "re_\\u00'),
	(21, 'HTML', '<html><body>502 Bad Gateway</body></html>'),
	(22, 'gzip', '\x1f8b0800000000000003ab56ca4c51b232d40100'),
	(23, 'a picture', '\x89504e470d0a1a0a0000000d49484452'),
	(24, 'UTF-16', '\xfffe7b0022006900640022003a0031007d00'),
	(25, 'NaN', '[NaN]'),
	(26, 'Infinity', '[-Infinity]'),
	(27, 'hexadecimal', '[0x10]'),
	(28, 'plus', '[+1]'),
	(29, 'leading zero', '[01]'),
	(30, 'point first', '[.5]'),
	(31, 'no key', '{1: 2}'),
	(32, 'same key twice', '{"id": 1, "id": 2}'),
	(33, 'empty key', '{"": 1}'),
	(40, 'escaped NUL', '{"id": "re_1", "note": "a\\u0000b"}'),
	(41, 'escaped NUL in a key', '{"id": "re_1", "a\\u0000": 1}'),
	(42, 'backslash before u0000', '{"note": "a\\\\u0000b"}'),
	(43, 'two backslashes before it', '{"note": "a\\\\\\u0000b"}'),
	(44, 'raw NUL in a string', '\x7b226964223a2272655f31222c226e223a22610062227d'),
	(45, 'raw NUL between', '\x7b00226964223a317d'),
	(46, 'raw NUL at the end', '\x7b226964223a317d00'),
	(47, 'lone high surrogate', '{"id": "re_1", "note": "\\ud800"}'),
	(48, 'lone low surrogate', '{"id": "re_1", "note": "\\udfff!"}'),
	(49, 'surrogates the wrong way round', '{"note": "\\ude00\\ud83d"}'),
	(50, 'high, then a pair', '{"note": "\\ud83d\\ud83d\\ude00"}'),
	(51, 'high, then another escape', '{"note": "\\ud83d\\u0041"}'),
	(52, 'high, then text', '{"note": "\\ud83dx"}'),
	(53, 'a pair', '{"note": "\\uD83D\\uDE00"}'),
	(54, 'high at the end of the body', '"\\ud83d'),
	(55, 'low cut', '"\\ud83d\\ude0"'),
	(56, 'no hex digits', '"\\uzzzz"'),
	(57, 'unknown escape', '"\\x41"'),
	(58, 'line feed in a string', E'"a\nb"'),
	(59, 'control in a string', '\x22011f22'),
	(60, 'delete in a string', '\x227f22'),
	(61, 'Latin-1', '\x7b226964223a2272655f31222c226e223a22636166e9227d'),
	(62, 'overlong slash', '\x22c0af22'),
	(63, 'overlong NUL', '\x22c08022'),
	(64, 'surrogate in UTF-8', '\x22eda08022'),
	(65, 'beyond Unicode', '\x22f490808022'),
	(66, 'character cut by the quote', '\x22e28222'),
	(67, 'continuation bytes alone', '\x22808022'),
	(68, 'bad byte in a key', '\x7b22ff223a317d'),
	(69, 'bad byte between', '\x5b312cff5d'),
	(70, 'bytes fe and ff', '\x22feff22'),
	(71, 'emoji', '\x22f09f988022'),
	(72, 'two keys made equal', '{"\\u0000": 1, "\\ud800": 2}');
SELECT i, name, encode(body, 'escape') AS body, _op_read_json(body) AS read FROM bodies ORDER BY i;

-- Depth and size: 128 deep, 400 characters, 3 digits of exponent.
SELECT name, _op_read_json(convert_to(body, 'UTF8')) IS NOT NULL AS read
  FROM (VALUES
	(1, '128 arrays', repeat('[', 128) || repeat(']', 128)),
	(2, '129 arrays', repeat('[', 129) || repeat(']', 129)),
	(3, '100,000 arrays', repeat('[', 100000) || repeat(']', 100000)),
	(4, '100,000 arrays, open', repeat('[', 100000)),
	(5, '128 objects', repeat('{"a":', 128) || '1' || repeat('}', 128)),
	(6, '129 objects', repeat('{"a":', 129) || '1' || repeat('}', 129)),
	(7, '200 in a row', '[' || repeat('[],', 200) || '1]'),
	(8, 'brackets in a string', '"' || repeat('[{', 1000) || '"'),
	(9, 'brackets in a key', '{"' || repeat('[{\"', 1000) || '": 1}'),
	(10, 'a quote that is escaped', '["\"' || repeat('[', 200) || '"]'),
	(11, 'closing first', repeat(']', 200) || repeat('[', 300)),
	(20, '400 digits', repeat('9', 400)),
	(21, '401 digits', repeat('9', 401)),
	(22, '401 characters, negative', '[-' || repeat('9', 400) || ']'),
	(23, '400 characters with a fraction', '[0.' || repeat('1', 398) || ']'),
	(24, '1e999', '{"n": 1e999}'),
	(25, '1E+999', '{"n": 1E+999}'),
	(26, '1e-999', '{"n": 1e-999}'),
	(27, '1e1000', '{"n": 1e1000}'),
	(28, '1e-1000', '{"n": 1e-1000}'),
	(29, '1e999999', '{"n": 1e999999}'),
	(30, '1e99999999999999999999', '[1e99999999999999999999]'),
	(31, 'a large exponent in a string', '"1e999999"'),
	(32, '395 digits and e999', repeat('9', 395) || 'e999'),
	(33, '395 digits and e-999', '0.' || repeat('9', 393) || 'e-999'),
	(40, '16 MiB', '"' || repeat('x', 16 * 1024 * 1024 - 2) || '"'),
	(41, '16 MiB and a byte', '"' || repeat('x', 16 * 1024 * 1024 - 1) || '"')
  ) AS t(i, name, body) ORDER BY i;

-- A megabyte of numbers takes no longer than it should.
SET statement_timeout = '20 s';
SELECT jsonb_array_length(_op_read_json(convert_to('[' || repeat('1,', 500000) || '1]', 'UTF8'))) AS numbers;
SELECT _op_read_json(convert_to('[' || repeat('1,', 500000) || '1', 'UTF8')) AS cut,
	   _op_read_json(convert_to(repeat('{"a":[1,', 64) || '}', 'UTF8')) AS closed_by_another;
RESET statement_timeout;

-- Also with the least stack that can be set.
SET max_stack_depth = '100kB';
SELECT op_canonical_json(_op_read_json(body::bytea)) = body AS deep
  FROM unnest(ARRAY[repeat('[', 128) || repeat(']', 128), repeat('{"a":', 128) || '1' || repeat('}', 128)]) AS body;
RESET max_stack_depth;

-- Two bodies spliced at every place, and a hostile byte put at every place:
-- nothing is ever raised, and what is JSON already is read as it is.
CREATE FUNCTION pg_temp.strictly(body bytea) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
	RETURN convert_from(body, 'UTF8')::jsonb;
EXCEPTION WHEN OTHERS THEN
	RETURN NULL;
END
$$;
CREATE TEMP TABLE mutants AS
SELECT overlay(body PLACING bad FROM at FOR span) AS body
  FROM bodies, generate_series(1, length(body) + 1) AS at, generate_series(0, 3) AS span,
	   unnest(ARRAY['"', '\\', '{', ']', ',', '1', '\\u0000', '\\ud83d', '\\ude00', '\x00', '\xff', '\xc3', '\xe282', '1e9999', '-']::bytea[]) AS bad
UNION ALL
SELECT substr(a.body, 1, at) || substr(b.body, at)
  FROM bodies AS a, bodies AS b, generate_series(1, 20) AS at;
SELECT count(*) > 100000 AS many, count(read) > 1000 AS some_read, count(strict) > 1000 AS some_strict,
	   count(*) FILTER (WHERE strict IS NOT NULL AND read IS DISTINCT FROM strict AND NOT large) AS differ,
	   bool_and(op_canonical_json(read)::jsonb = read) AS canonical
  FROM (SELECT _op_read_json(body) AS read, pg_temp.strictly(body) AS strict,
			   position('1e9999'::bytea IN body) > 0 AS large
		  FROM mutants) AS t;

--
-- Bytes as text for people.
--
SELECT encode(b, 'hex') AS bytes, _op_lossy_text(b) AS text
  FROM unnest(ARRAY['', 'plain', '\x636166c3a9', '\x636166e9', '\x00', '\x610062', '\xf09f9880', '\xf09f98', '\xf09f9861',
	'\xe28261', '\xc0af', '\xeda080', '\xf4908080', '\x8080', '\xfeff', '\xc3c3a9']::bytea[]) WITH ORDINALITY AS t(b, i) ORDER BY i;

SELECT bool_and(_op_lossy_text(convert_to(t, 'UTF8')) = t) AS text_stays
  FROM (SELECT chr(c) || 'x' || chr(c) AS t FROM generate_series(1, 70000, 7) AS c WHERE c NOT BETWEEN 55296 AND 57343) AS t;
