-- What follows from a verdict: the tables of decisions and of the door, row by row.
-- A decision reads: state, next step and when, [seal], ! contradiction noted, (reason).
SET timezone = 'UTC';
SET DateStyle = 'ISO';

CREATE FUNCTION pg_temp.now() RETURNS timestamptz LANGUAGE sql IMMUTABLE
	RETURN '2026-01-01 12:00:00+00'::timestamptz;

-- Moments are seconds before (-) or after now.
CREATE FUNCTION pg_temp.at(s numeric) RETURNS text LANGUAGE sql IMMUTABLE
	RETURN (pg_temp.now() + s * interval '1 s')::text;

CREATE FUNCTION pg_temp.decide(operation jsonb, promises jsonb, finding jsonb) RETURNS text LANGUAGE sql
	RETURN (SELECT concat_ws(' ', d.state, d.step,
		rtrim(to_char(extract(epoch FROM d.due_at - pg_temp.now()), 'FMSG999999990.999999'), '.'),
		'[' || d.sealed || ']', CASE WHEN d.contradiction THEN '!' END, '(' || d.reason || ')')
		FROM _op_decide(operation, promises, finding, pg_temp.now()) d);

-- Sent once 10 s ago (not quiet), or once 100 s ago (quiet: 5 + 60 s are over).
SELECT format('{"tries": 1, "attempts": 1, "trying_since": "%1$s", "first_sent_at": "%1$s", "last_sent_at": "%1$s"}', pg_temp.at(-10)) AS sent,
	format('{"tries": 1, "attempts": 1, "trying_since": "%1$s", "first_sent_at": "%1$s", "last_sent_at": "%1$s"}', pg_temp.at(-100)) AS quiet \gset
\set promise '{"ttl": "24 h", "margin": "5 s", "timeout": "30 s", "flight": "60 s", "attempts": 3, "patience": "1 h", "give_up": "3 d", "initial": "2 s", "base": 2, "max": "1 min"}'

CREATE TEMP TABLE promise (n int, kind text, p jsonb);
INSERT INTO promise VALUES
	(1, 'guards, lookup', '{"stores": "all", "guards": true, "recipe": true}'),
	(2, 'guards', '{"stores": "all", "guards": true}'),
	(3, 'lookup', '{"stores": "success", "recipe": true}'),
	(4, 'key forgotten, lookup', '{"ttl": "0 s", "recipe": true}'),
	(5, 'nothing', '{"ttl": "0 s"}');
UPDATE promise SET p = :'promise'::jsonb || p;

CREATE TEMP TABLE operation (n int, state text, o jsonb);
INSERT INTO operation VALUES
	(1, 'submitted', '{"state": "submitted"}'),
	(2, 'submitted, tainted', '{"state": "submitted", "tainted": true, "tries": 2, "attempts": 2}'),
	(3, 'unknown', '{"state": "unknown", "tainted": true}'),
	(4, 'accepted', '{"state": "accepted", "tainted": true, "sealed": "seen"}'),
	(5, 'review', '{"state": "review", "tainted": true}'),
	(6, 'pending', '{"state": "pending", "tries": 0, "attempts": 0, "trying_since": null, "first_sent_at": null, "last_sent_at": null}');
UPDATE operation SET o = :'sent'::jsonb || o;

CREATE FUNCTION pg_temp.row(verdict text) RETURNS TABLE (state text, kind text, decision text, n int) LANGUAGE sql AS $$
	SELECT o.state, p.kind, pg_temp.decide(o.o, p.p, jsonb_build_object('verdict', verdict, 'kind', CASE WHEN o.n <= 2 THEN 'send' ELSE 'lookup' END)), p.n
	FROM operation o, promise p
	WHERE CASE WHEN o.n <= 2 THEN verdict NOT IN ('found', 'found_pending', 'absent', 'inconclusive', 'contradiction')
		ELSE verdict IN ('found', 'found_pending', 'found_failed', 'absent', 'inconclusive', 'contradiction') END
	ORDER BY o.n, p.n
$$;

-- 1. Each verdict, in each state it can meet, under each kind of promise.

\echo confirmed
SELECT * FROM pg_temp.row('confirmed') \crosstabview state kind decision n
\echo accepted
SELECT * FROM pg_temp.row('accepted') \crosstabview state kind decision n
\echo not_sent
SELECT * FROM pg_temp.row('not_sent') \crosstabview state kind decision n
\echo not_processed
SELECT * FROM pg_temp.row('not_processed') \crosstabview state kind decision n
\echo rejected
SELECT * FROM pg_temp.row('rejected') \crosstabview state kind decision n
\echo blocked
SELECT * FROM pg_temp.row('blocked') \crosstabview state kind decision n
\echo in_progress
SELECT * FROM pg_temp.row('in_progress') \crosstabview state kind decision n
\echo already_done
SELECT * FROM pg_temp.row('already_done') \crosstabview state kind decision n
\echo mismatch
SELECT * FROM pg_temp.row('mismatch') \crosstabview state kind decision n
\echo stored_error
SELECT * FROM pg_temp.row('stored_error') \crosstabview state kind decision n
\echo unknown
SELECT * FROM pg_temp.row('unknown') \crosstabview state kind decision n
\echo found
SELECT * FROM pg_temp.row('found') \crosstabview state kind decision n
\echo found_pending
SELECT * FROM pg_temp.row('found_pending') \crosstabview state kind decision n
\echo found_failed
SELECT * FROM pg_temp.row('found_failed') \crosstabview state kind decision n
\echo absent
SELECT * FROM pg_temp.row('absent') \crosstabview state kind decision n
\echo inconclusive
SELECT * FROM pg_temp.row('inconclusive') \crosstabview state kind decision n
\echo contradiction
SELECT * FROM pg_temp.row('contradiction') \crosstabview state kind decision n

-- 2. Absent: seal x quiet x state x promise.
SELECT o.state || CASE WHEN quiet THEN ', quiet' ELSE '' END || coalesce(', ' || seal, '') AS operation, p.kind,
	pg_temp.decide(o.o || CASE WHEN quiet THEN :'quiet'::jsonb ELSE '{}' END || jsonb_build_object('sealed', seal), p.p, '{"verdict": "absent"}') AS decision, p.n
FROM operation o, promise p, unnest('{f,t}'::bool[]) quiet,
	unnest('{null,refused,evidence,seen}'::text[]) WITH ORDINALITY s (seal, sn)
WHERE o.n IN (3, 4, 5) AND p.n IN (1, 3, 4) AND (o.n <> 4 OR seal = 'seen')
ORDER BY o.n, quiet, sn, p.n \crosstabview operation kind decision n

-- Quiet begins one microsecond after last claim + margin + flight + lag, and it is
-- the start of the lookup that counts. Asked too early: once more as soon as quiet.
SELECT started, lag, pg_temp.decide('{"state": "unknown", "tainted": true}'::jsonb || :'sent'::jsonb || jsonb_build_object('last_sent_at', pg_temp.at(-70)),
	p.p || jsonb_build_object('lag', lag), jsonb_build_object('verdict', 'absent', 'started_at', pg_temp.at(started))) AS decision
FROM promise p, unnest('{-30,-5.000001,-5,-4.999999,0}'::numeric[]) started, unnest('{0 s,4.9 s,5 s,30 s}'::text[]) lag
WHERE p.n = 3 ORDER BY lag, started;

-- 3. Rejected: only the key's own answer speaks for all requests under the key.
SELECT concat_ws(', ', stores, CASE WHEN keyed THEN 'keyed' END, CASE WHEN adopted THEN 'adopted' END) AS answer,
	CASE WHEN tainted THEN 'tainted' ELSE 'not tainted' END AS operation,
	pg_temp.decide(:'sent'::jsonb || jsonb_build_object('state', 'submitted', 'tainted', tainted, 'adopted', adopted),
		:'promise'::jsonb || jsonb_build_object('stores', stores, 'guards', stores IN ('all', 'state'), 'recipe', true),
		jsonb_build_object('verdict', 'rejected', 'keyed', keyed)) AS decision
FROM unnest('{nothing,success,state,all}'::text[]) WITH ORDINALITY s (stores, sn), unnest('{f,t}'::bool[]) keyed, unnest('{f,t}'::bool[]) adopted, unnest('{f,t}'::bool[]) tainted
ORDER BY sn, keyed, adopted, tainted \crosstabview

-- 4. Found failed: the end only if nothing else of the operation can succeed.
SELECT concat_ws(', ', 'tries ' || tries, stores, CASE WHEN adopted THEN 'adopted' END) AS operation, what,
	pg_temp.decide(CASE WHEN what = 'quiet lookup' THEN :'quiet' ELSE :'sent' END::jsonb || jsonb_build_object('state', 'unknown', 'tainted', true, 'tries', tries, 'adopted', adopted),
		:'promise'::jsonb || jsonb_build_object('stores', stores, 'guards', stores IN ('all', 'state'), 'recipe', true),
		jsonb_build_object('verdict', 'found_failed', 'kind', kind)) AS decision, kn
FROM unnest('{1,2}'::int[]) tries, unnest('{nothing,success,state,all}'::text[]) WITH ORDINALITY s (stores, sn), unnest('{f,t}'::bool[]) adopted,
	(VALUES (1, 'answer', 'send'), (2, 'lookup', 'lookup'), (3, 'quiet lookup', 'lookup'), (4, 'webhook', 'door')) k (kn, what, kind)
ORDER BY tries, sn, adopted, kn \crosstabview operation what decision kn

-- A key that guards by its profile's word, though it keeps successes only.
SELECT pg_temp.decide(:'sent'::jsonb || '{"state": "unknown", "tainted": true, "tries": 2}', :'promise'::jsonb || '{"stores": "success", "guards": true, "recipe": true}', '{"verdict": "found_failed"}');

-- 5. The first seal stays; only seen overrides.
SELECT coalesce(seal, 'none') AS seal, verdict,
	pg_temp.decide(:'sent'::jsonb || jsonb_build_object('state', 'submitted', 'tainted', true, 'tries', 2, 'sealed', seal), p.p, jsonb_build_object('verdict', verdict)) AS decision, vn
FROM promise p, unnest('{null,refused,evidence,seen}'::text[]) WITH ORDINALITY s (seal, sn),
	unnest('{rejected,already_done,stored_error,found_failed,accepted,unknown}'::text[]) WITH ORDINALITY v (verdict, vn)
WHERE p.n = 3 ORDER BY sn, vn \crosstabview seal verdict decision vn

-- A sealed operation is not sent again, whatever would allow it.
SELECT seal, verdict,
	pg_temp.decide(:'quiet'::jsonb || jsonb_build_object('state', state, 'tainted', true, 'sealed', seal), p.p, jsonb_build_object('verdict', verdict)) AS decision, vn
FROM promise p, unnest('{refused,evidence,seen}'::text[]) WITH ORDINALITY s (seal, sn),
	(VALUES (1, 'not_sent', 'submitted'), (2, 'not_processed', 'submitted'), (3, 'in_progress', 'submitted'), (4, 'blocked', 'submitted'), (5, 'unknown', 'submitted'), (6, 'absent', 'unknown')) v (vn, verdict, state)
WHERE p.n = 1 ORDER BY sn, vn \crosstabview seal verdict decision vn

-- 6. The window: now + margin + reach < first claim + ttl. Reach is the larger of
-- flight and timeout; a clock that went backwards closes it.
SELECT flight, timeout, first, pg_temp.decide('{"state": "unknown", "tainted": true, "tries": 1}'::jsonb || jsonb_build_object('first_sent_at', pg_temp.at(first), 'last_sent_at', pg_temp.at(first)),
	p.p || jsonb_build_object('ttl', '100 s', 'flight', flight, 'timeout', timeout), '{"verdict": "absent"}') AS decision
FROM promise p, (VALUES ('60 s', '30 s'), ('30 s', '60 s')) r (flight, timeout), unnest('{-34.999999,-35,-35.000001,-100,0,0.000001}'::numeric[]) first
WHERE p.n = 1;
SELECT what, pg_temp.decide('{"state": "unknown", "tainted": true, "tries": 1}'::jsonb || o::jsonb, p.p, '{"verdict": "absent"}') AS decision
FROM promise p, (VALUES
	('clock behind the first claim', format('{"first_sent_at": "%s", "last_sent_at": "%s"}', pg_temp.at(1), pg_temp.at(1))),
	('clock behind the last claim', format('{"first_sent_at": "%s", "last_sent_at": "%s"}', pg_temp.at(-10), pg_temp.at(1)))) c (what, o)
WHERE p.n = 1;

-- The moment of the resend must be inside, not only now: then better ask at once.
SELECT retry, kind, pg_temp.decide('{"state": "submitted", "tainted": true, "tries": 1}'::jsonb || jsonb_build_object('first_sent_at', pg_temp.at(-10), 'last_sent_at', pg_temp.at(-10)),
	p.p || '{"ttl": "100 s"}', jsonb_build_object('verdict', 'not_processed', 'retry_at', pg_temp.at(retry))) AS decision, p.n
FROM promise p, unnest('{-20,1,24.999999,25,1000}'::numeric[]) retry WHERE p.n <= 2
ORDER BY retry, p.n \crosstabview retry kind decision n

-- 7. Tries, patience, not_after; without a taint they end it, with one they lead to a lookup.
SELECT what, CASE WHEN tainted THEN 'tainted' ELSE 'not tainted' END AS operation,
	pg_temp.decide(:'sent'::jsonb || jsonb_build_object('state', 'submitted', 'tainted', tainted) || o::jsonb, p.p, '{"verdict": "not_sent"}') AS decision
FROM promise p, unnest('{f,t}'::bool[]) tainted, (VALUES
	(1, 'third try of three', '{"tries": 3}'),
	(2, 'fourth try of three', '{"tries": 4}'),
	(3, 'patience not over', format('{"trying_since": "%s"}', pg_temp.at(-3599.999999))),
	(4, 'patience over', format('{"trying_since": "%s"}', pg_temp.at(-3600))),
	(5, 'not_after not reached', format('{"not_after": "%s"}', pg_temp.at(0.000001))),
	(6, 'not_after reached', format('{"not_after": "%s"}', pg_temp.at(0)))) c (n, what, o)
WHERE p.n = 1 ORDER BY c.n, tainted \crosstabview

-- 8. Backing off: initial * base^(attempts - 1), up to max; lookups up to 10 min; the dice takes part of it.
SELECT attempts, verdict, pg_temp.decide(:'sent'::jsonb || jsonb_build_object('state', 'submitted', 'attempts', attempts), p.p, jsonb_build_object('verdict', verdict)) AS decision
FROM promise p, unnest('{0,1,2,3,5,6,9,10,11,1000}'::int[]) attempts, unnest('{not_sent,stored_error}'::text[]) verdict
WHERE p.n = 1 ORDER BY attempts, verdict \crosstabview
SELECT jitter, dice, pg_temp.decide(:'sent'::jsonb || '{"state": "submitted", "attempts": 3}', p.p || jsonb_build_object('jitter', jitter), jsonb_build_object('verdict', 'not_sent', 'dice', dice)) AS decision
FROM promise p, unnest('{0,0.5,1}'::numeric[]) jitter, unnest('{0,0.5,0.75}'::numeric[]) dice
WHERE p.n = 1 ORDER BY jitter, dice \crosstabview

-- 9. Retry-After counts; without it back off. in_progress comes back the same way.
SELECT verdict, retry, pg_temp.decide(:'sent'::jsonb || '{"state": "submitted"}', p.p, jsonb_build_object('verdict', verdict, 'retry_at', CASE WHEN retry IS NOT NULL THEN pg_temp.at(retry) END)) AS decision
FROM promise p, unnest('{not_sent,not_processed,in_progress,blocked}'::text[]) WITH ORDINALITY v (verdict, vn), unnest('{null,-5,7,7200}'::numeric[]) WITH ORDINALITY r (retry, rn)
WHERE p.n = 1 ORDER BY vn, rn \crosstabview

-- 10. Giving up, counted from the last claim: 3 d.
SELECT state, verdict, ago, pg_temp.decide(o.o || jsonb_build_object('sealed', 'seen', 'first_sent_at', pg_temp.at(-ago), 'last_sent_at', pg_temp.at(-ago)), p.p, jsonb_build_object('verdict', verdict)) AS decision
FROM operation o, promise p, unnest('{absent,inconclusive,found_pending}'::text[]) verdict, unnest('{259199.999999,259200}'::numeric[]) ago
WHERE p.n = 1 AND o.n IN (3, 4, 5) ORDER BY verdict, o.n, ago;
-- accepted without a recipe waits for a webhook until then
SELECT pg_temp.decide(:'sent'::jsonb || '{"state": "submitted"}', p.p, '{"verdict": "accepted"}') FROM promise p WHERE p.n = 5;

-- 11. Lookup first: absent sends, anything unclear stays, an object is an object.
SELECT verdict, pg_temp.decide('{"state": "pending"}', p.p, jsonb_build_object('verdict', verdict)) AS decision
FROM promise p, unnest('{absent,inconclusive,found,found_pending,found_failed,contradiction}'::text[]) verdict WHERE p.n = 1;
-- also when an earlier try proved to be none
SELECT pg_temp.decide(:'sent'::jsonb || '{"state": "pending", "tries": 0}', p.p, '{"verdict": "absent"}') FROM promise p WHERE p.n = 4;

-- 12. After an adoption no key guards.
SELECT verdict, pg_temp.decide(:'sent'::jsonb || jsonb_build_object('adopted', true, 'tainted', true, 'state', state), p.p, jsonb_build_object('verdict', verdict)) AS decision
FROM promise p, (VALUES ('unknown', 'submitted'), ('not_sent', 'submitted'), ('in_progress', 'submitted'), ('absent', 'unknown'), ('found_failed', 'unknown')) v (verdict, state) WHERE p.n = 2;
SELECT pg_temp.decide(:'quiet'::jsonb || '{"adopted": true, "tainted": true, "state": "unknown"}', p.p, '{"verdict": "absent"}') FROM promise p WHERE p.n = 1;

-- 13. A noted contradiction is left to a person: nothing moves, whatever is shown.
SELECT string_agg(DISTINCT pg_temp.decide(:'sent'::jsonb || '{"state": "review", "tainted": true, "contradiction": true}', p.p, jsonb_build_object('verdict', verdict, 'kind', way)), ' / ') AS decision, count(*) AS cases
FROM promise p, unnest('{send,lookup,door,late}'::text[]) way,
	unnest('{not_sent,not_processed,confirmed,accepted,rejected,blocked,in_progress,already_done,mismatch,stored_error,unknown,found,found_pending,found_failed,absent,contradiction,inconclusive}'::text[]) verdict;

-- 14. The door: webhooks and late answers, by state.
CREATE TEMP TABLE anystate (n serial, state text);
INSERT INTO anystate (state) SELECT unnest('{held,pending,submitted,unknown,accepted,review,confirmed,failed,cancelled}'::text[]);
CREATE FUNCTION pg_temp.door(way text, more jsonb) RETURNS TABLE (state text, verdict text, decision text, vn bigint) LANGUAGE sql AS $$
	SELECT a.state, verdict, pg_temp.decide(o.o || jsonb_build_object('state', a.state, 'tainted', a.n BETWEEN 4 AND 6), p.p,
		jsonb_build_object('verdict', verdict, 'kind', way) || more), vn
	FROM anystate a, promise p, operation o, unnest('{found,found_pending,found_failed,absent,unknown}'::text[]) WITH ORDINALITY v (verdict, vn)
	WHERE p.n = 1 AND o.n = 1
	ORDER BY a.n, vn
$$;
\echo webhook, no id on record
SELECT * FROM pg_temp.door('door', '{"object": "none"}') \crosstabview state verdict decision vn
\echo webhook, the recorded object
SELECT * FROM pg_temp.door('door', '{"object": "same"}') \crosstabview state verdict decision vn
\echo webhook, another object
SELECT * FROM pg_temp.door('door', '{"object": "other"}') \crosstabview state verdict decision vn
\echo webhook, of another generation
SELECT * FROM pg_temp.door('door', '{"same_generation": false}') \crosstabview state verdict decision vn
\echo webhook, about an object on record as failed
SELECT * FROM pg_temp.door('door', '{"object_failed": true}') \crosstabview state verdict decision vn
\echo late answer
SELECT * FROM pg_temp.door('late', '{}') \crosstabview state verdict decision vn

-- The same rules hold for what was asked for.
SELECT what, verdict, pg_temp.decide(:'sent'::jsonb || '{"state": "unknown", "tainted": true, "tries": 2}', p.p, jsonb_build_object('verdict', verdict) || f::jsonb) AS decision, vn
FROM promise p, (VALUES
	(1, 'lookup: the recorded object', '{"object": "same"}'),
	(2, 'lookup: another object', '{"object": "other"}'),
	(3, 'lookup: of another generation', '{"same_generation": false}'),
	(4, 'lookup: failed before', '{"object_failed": true}')) c (cn, what, f),
	unnest('{found,found_pending,found_failed}'::text[]) WITH ORDINALITY v (verdict, vn)
WHERE p.n = 3 ORDER BY cn, vn \crosstabview what verdict decision vn
SELECT what, verdict, pg_temp.decide(:'sent'::jsonb || '{"state": "submitted"}', p.p, jsonb_build_object('verdict', verdict) || f::jsonb) AS decision, vn
FROM promise p, (VALUES
	(1, 'answer: the recorded object', '{"object": "same"}'),
	(2, 'answer: another object', '{"object": "other"}'),
	(3, 'answer: of another generation', '{"same_generation": false}'),
	(4, 'answer: failed before', '{"object_failed": true}')) c (cn, what, f),
	unnest('{confirmed,accepted,found_failed}'::text[]) WITH ORDINALITY v (verdict, vn)
WHERE p.n = 3 ORDER BY cn, vn \crosstabview what verdict decision vn

-- Sent to place a, and place b is what we see now: it proves nothing but what shows our object.
CREATE FUNCTION pg_temp.elsewhere(verdicts text[], seal text, quiet jsonb) RETURNS TABLE (state text, kind text, verdict text, decision text, n int, vn bigint) LANGUAGE sql AS $$
	SELECT o.state, p.kind, v.verdict, pg_temp.decide(o.o || quiet || jsonb_build_object('place', 'a', 'sealed', seal), p.p || '{"place": "b"}',
		jsonb_build_object('verdict', v.verdict, 'keyed', true, 'kind', CASE WHEN o.n <= 2 THEN 'send' ELSE 'lookup' END)), p.n, v.vn
	FROM operation o, promise p, unnest(verdicts) WITH ORDINALITY v (verdict, vn)
	WHERE CASE WHEN o.n <= 2 THEN v.verdict NOT IN ('found', 'found_pending', 'absent', 'inconclusive', 'contradiction')
		ELSE v.verdict IN ('found', 'found_pending', 'found_failed', 'absent', 'inconclusive', 'contradiction') END
	ORDER BY v.vn, o.n, p.n
$$;
SELECT e.verdict || ': ' || e.state AS "elsewhere", kind, decision, n FROM pg_temp.elsewhere('{absent,inconclusive,found,found_pending,found_failed,contradiction}', NULL, :'quiet') e \crosstabview elsewhere kind decision n
SELECT e.verdict || ': ' || e.state AS "elsewhere, refused before", kind, decision, n FROM pg_temp.elsewhere('{absent,found_failed}', 'refused', :'quiet') e \crosstabview 1 kind decision n
SELECT e.verdict || ': ' || e.state AS "elsewhere", kind, decision, n
  FROM pg_temp.elsewhere('{not_sent,not_processed,rejected,blocked,in_progress,already_done,mismatch,stored_error,unknown}', NULL, '{}') e \crosstabview elsewhere kind decision n
-- Past give_up, and a place that is known to nobody.
SELECT place, verdict, pg_temp.decide(o.o || jsonb_build_object('place', place, 'first_sent_at', pg_temp.at(-259200), 'last_sent_at', pg_temp.at(-259200)), p.p || '{"place": "b"}', jsonb_build_object('verdict', verdict)) AS decision
FROM operation o, promise p, unnest('{absent,inconclusive}'::text[]) verdict, unnest('{null,a,b}'::text[]) place WHERE o.n = 3 AND p.n = 1 ORDER BY place, verdict;

-- 15. Every verdict in every state that awaits it: no arrow is missing.
SELECT count(*) AS cases, count(*) FILTER (WHERE d.state <> a.state AND NOT EXISTS (
	SELECT FROM op_transitions() t WHERE t.from_state = a.state AND t.to_state = d.state)) AS without_arrow
FROM anystate a, promise p, unnest('{send,lookup,door,late}'::text[]) way, unnest('{null,refused,evidence,seen}'::text[]) seal, unnest('{a,b}'::text[]) place,
	unnest('{not_sent,not_processed,confirmed,accepted,rejected,blocked,in_progress,already_done,mismatch,stored_error,unknown,found,found_pending,found_failed,absent,contradiction,inconclusive}'::text[]) verdict,
	LATERAL _op_decide(:'sent'::jsonb || jsonb_build_object('state', a.state, 'tainted', a.n BETWEEN 4 AND 6, 'sealed', seal, 'place', place), p.p || '{"place": "b"}', jsonb_build_object('verdict', verdict, 'kind', way), pg_temp.now()) d
WHERE CASE way WHEN 'send' THEN a.state = 'submitted' AND verdict NOT IN ('found', 'found_pending', 'absent', 'inconclusive', 'contradiction')
	WHEN 'lookup' THEN a.state IN ('pending', 'unknown', 'accepted', 'review') AND verdict IN ('found', 'found_pending', 'found_failed', 'absent', 'contradiction', 'inconclusive')
	ELSE verdict IN ('found', 'found_pending', 'found_failed', 'unknown') END;

-- 16. The promises of the shipped profiles.
SELECT p.name || '.' || a.key AS action, _op_promises(_op_merge(p.spec->'provider', a.value)) AS promises
FROM op_profile p, jsonb_each(p.spec->'actions') a ORDER BY 1;

-- 17. The clock was set. What was sent before counts as sent at that moment; what lies ahead is from before a step
-- back; a lookup from before it proves nothing; and a window is shorter by what the clock was set back.
SELECT what, pg_temp.decide(('{"state": "unknown", "tainted": true, "tries": 1, "first_sent_at": "' || pg_temp.at(sent) || '", "last_sent_at": "' || pg_temp.at(sent)
		|| '", "steady_since": "' || pg_temp.at(since) || '"}')::jsonb, p.p || promise::jsonb, ('{"verdict": "absent", "started_at": "' || pg_temp.at(asked) || '"}')::jsonb) AS decision
FROM promise p, (VALUES
	('set forward 10 s ago', -1800, -10, 0, '{}'),
	('set forward, and quiet since', -1800, -66, 0, '{}'),
	('set back 10 s ago', 3500, -10, 0, '{}'),
	('set back, and quiet since', 3500, -66, 0, '{}'),
	('set back, asked before', 3500, -66, 3590, '{}'),
	('given up, but the clock was set since', -260000, -10, 0, '{"give_up": "1 min"}')) c (what, sent, since, asked, promise)
WHERE p.n = 3;
SELECT what, pg_temp.decide(('{"state": "unknown", "tainted": true, "tries": 1, "first_sent_at": "' || pg_temp.at(sent) || '", "last_sent_at": "' || pg_temp.at(sent)
		|| '", "steady_since": "' || pg_temp.at(-600) || '"}')::jsonb || more::jsonb, p.p, '{"verdict": "unknown"}') AS decision
FROM promise p, (VALUES
	('set back by an hour, sent before', 2700, format('{"set_back_from": "%s", "set_back_by": "1 h"}', pg_temp.at(3000))),
	('set back by more than a day, sent before', 2700, format('{"set_back_from": "%s", "set_back_by": "25 h"}', pg_temp.at(3000))),
	('set back by more than a day, sent after', -60, format('{"set_back_from": "%s", "set_back_by": "25 h"}', pg_temp.at(-90))),
	('set back unseen', 2700, '{}')) c (what, sent, more)
WHERE p.n = 2;

-- 18. What is asked is checked.
SELECT * FROM _op_decide('{"state": "unknwn"}', '{}', '{"verdict": "absent"}', pg_temp.now());
SELECT * FROM _op_decide('{"state": "unknown", "taint": true}', '{}', '{"verdict": "absent"}', pg_temp.now());
SELECT * FROM _op_decide('{"state": "unknown"}', '{"ttl": "1 month"}', '{"verdict": "absent"}', pg_temp.now());
SELECT * FROM _op_decide('{"state": "unknown"}', '{}', '{"kind": "send"}', pg_temp.now());
SELECT * FROM _op_decide('{"state": "unknown"}', '{}', '{"verdict": "absent", "started_at": "infinity"}', pg_temp.now());
