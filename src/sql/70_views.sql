CREATE VIEW op_review AS
SELECT o.op_id, o.state, CASE o.state WHEN 'held' THEN 'approval' ELSE 'decision' END AS waits_for,
       o.action, o.provider, _op_redact(r.args, _op_spec(o.action) -> 'redact') AS args, o.generation,
       o.submitted_by, o.created_at, o.first_sent_at, o.last_sent_at, o.reason, o.contradiction,
       o.external_id, o.failed_ids,
       (SELECT jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
                   'n', a.n, 'kind', a.kind, 'generation', a.generation, 'at', a.started_at, 'verdict', a.verdict,
                   'reason', a.reason, 'http_status', a.http_status, 'external_id', a.external_id,
                   'error', a.error)) ORDER BY a.n)
          FROM op_attempt AS a WHERE a.op_id = o.op_id) AS evidence,
       (SELECT jsonb_agg(jsonb_strip_nulls(to_jsonb(x))) FROM _op_objects(o.op_id) AS x) AS objects,
       f.key_forgotten_at, f.quiet_at,
       (SELECT d.due_at FROM op_due AS d WHERE d.op_id = o.op_id) AS next_lookup_at,
       f.suggestion, f.console, op_digest(o.op_id) AS digest
  FROM op_operation AS o
  LEFT JOIN op_request AS r ON r.op_id = o.op_id AND r.generation = o.generation
 CROSS JOIN LATERAL _op_review_facts(o.op_id) AS f
 WHERE o.state IN ('review', 'held');

COMMENT ON VIEW op_review IS
	'What waits for a person, with all that is known: operations in review (op_resolve) and those held for an approval (op_approve, op_reject).';
COMMENT ON COLUMN op_review.op_id IS 'the operation';
COMMENT ON COLUMN op_review.state IS 'review, or held';
COMMENT ON COLUMN op_review.waits_for IS 'decision: the machine cannot tell what happened; approval: nothing was sent yet';
COMMENT ON COLUMN op_review.action IS 'the kind of operation';
COMMENT ON COLUMN op_review.provider IS 'whom it is sent to';
COMMENT ON COLUMN op_review.args IS 'the arguments; what the spec''s "redact" names is ***';
COMMENT ON COLUMN op_review.generation IS '1, and one more for each op_reissue()';
COMMENT ON COLUMN op_review.submitted_by IS 'the role that submitted it first';
COMMENT ON COLUMN op_review.created_at IS 'when it was submitted first';
COMMENT ON COLUMN op_review.first_sent_at IS 'the first claim of this generation''s key; NULL: nothing was sent';
COMMENT ON COLUMN op_review.last_sent_at IS 'the last claim; NULL: nothing was sent';
COMMENT ON COLUMN op_review.reason IS 'why it waits, one word; doc/reasons.md explains each';
COMMENT ON COLUMN op_review.contradiction IS 'evidence contradicts itself; only a person closes it';
COMMENT ON COLUMN op_review.external_id IS 'the object at the provider; NULL: none is known';
COMMENT ON COLUMN op_review.failed_ids IS 'objects of this operation that are known to have failed';
COMMENT ON COLUMN op_review.evidence IS 'what each exchange showed, oldest first; op_evidence() has all of it';
COMMENT ON COLUMN op_review.objects IS 'all objects of this operation at the provider that were ever seen: id, state, and the exchanges that showed them';
COMMENT ON COLUMN op_review.key_forgotten_at IS 'the provider forgets the key then; NULL: nothing was sent, or it never remembers one';
COMMENT ON COLUMN op_review.quiet_at IS 'from then on nothing that was sent can still arise, and op_resolve() takes failed; NULL: nothing was sent';
COMMENT ON COLUMN op_review.next_lookup_at IS 'the machine asks the provider again then; NULL: it does not';
COMMENT ON COLUMN op_review.suggestion IS 'what to do, and the statement for it';
COMMENT ON COLUMN op_review.console IS 'the provider''s page about it, from the spec''s "console"';
COMMENT ON COLUMN op_review.digest IS 'of the request, for op_approve()';
