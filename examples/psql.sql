-- The ledger in plain psql: providers, an operation, its outcome, what happened.
--     psql -v url=https://api.stripe.com -f examples/psql.sql
-- The secret is a file inside op_ledger.secret_dir.
\set ON_ERROR_STOP on
\if :{?url} \else \set url https://api.stripe.com \endif

-- Whom we call. The profile brings the actions: stripe.refund, stripe.charge, …
SELECT op_provider_add('stripe', profile => 'stripe', base_url => :'url', secret => 'file:stripe.key');

-- The same provider for harnesses that send by themselves, with Stripe's own SDK.
SELECT op_provider_add('sdk', profile => 'stripe', base_url => :'url', secret => 'file:stripe.key',
                       spec => '{"executor": "client"}');

-- The operation and the business row that asks for it: both, or neither.
CREATE TABLE IF NOT EXISTS order_line (id text PRIMARY KEY, payment_intent text, amount integer, refunding boolean DEFAULT false);
INSERT INTO order_line VALUES ('li_1', 'pi_1', 38000) ON CONFLICT DO NOTHING;
SELECT op_key('refund', '1043', 'li_1') AS op \gset
BEGIN;
UPDATE order_line SET refunding = true WHERE id = 'li_1';
SELECT state, effect, next_action
  FROM order_line AS l,
       op_submit(:'op', 'stripe.refund', jsonb_build_object('payment_intent', l.payment_intent, 'amount', l.amount))
 WHERE l.id = 'li_1';
COMMIT;

-- It is sent after the commit. "unknown" is no failure: wait on.
SELECT state, effect, external_id, next_action FROM op_wait(:'op');

-- Asked again, by whomever: the same operation answers, nothing is sent.
SELECT state, is_new, external_id FROM op_submit(:'op', 'stripe.refund', '{"payment_intent": "pi_1", "amount": 38000}');

-- Submit, commit and wait in one; a client that has autocommit can call it.
CALL op_execute(op_key('refund', '1043', 'li_2'), 'stripe.refund', '{"payment_intent": "pi_2", "amount": 500}');

-- What happened, and how the ledger is.
SELECT event, n, verdict, detail FROM op_timeline(:'op');
SELECT check_name, status, detail FROM op_health();
