#!/usr/bin/env node
// A harness that refunds an order line, once: by the worker, or by itself with Stripe's own SDK.
//
//     harness.js worker ORDER LINE PAYMENT_INTENT AMOUNT      submit, and wait
//     harness.js client ORDER LINE PAYMENT_INTENT AMOUNT      submit, claim, send, report
//
// The database is PGHOST, PGDATABASE, …; STRIPE_KEY is the secret of a client that sends by itself,
// STRIPE_URL another address than Stripe's. psql.sql shows how the two providers are set up.
// Run it as often as you like, kill it when you like: the refund happens once.
import pg from 'pg';
import Stripe from 'stripe';

const TIMEOUT = 20; // seconds for one request; the lease is a little more

const database = new pg.Client();

// The only row of a query. Each is a transaction of its own, so what it did is committed when it
// returns: op_claim() counts on that.
async function sql(query, ...values) {
  return (await database.query(query, values)).rows[0];
}

// The id says what is done. Again with the same arguments: the first one answers.
function submit(op, action, args) {
  return sql('SELECT * FROM op_submit($1, $2, $3)', op, action, args);
}

function wait(op) {
  return sql("SELECT * FROM op_wait($1, '5 s')", op);
}

// Whether to send again is the ledger's question. maxNetworkRetries 0 is not enough for that: the
// SDK repeats a request all the same whose connection was closed, unless it does not see the code.
function sendOnce() {
  const http = Stripe.createNodeHttpClient();
  const makeRequest = http.makeRequest.bind(http);
  http.makeRequest = (...request) => makeRequest(...request).catch((problem) => { throw new Error(problem.message); });
  return http;
}

function client() {
  const url = new URL(process.env.STRIPE_URL ?? 'https://api.stripe.com');
  return new Stripe(process.env.STRIPE_KEY, {
    host: url.hostname,
    port: url.port || undefined,
    protocol: url.protocol.slice(0, -1),
    maxNetworkRetries: 0,
    httpClient: sendOnce(),
    timeout: TIMEOUT * 1000,
    telemetry: false,
  });
}

// Sends what the ticket says, under its key and with its marker, and says what was seen.
async function send(stripe, ticket) {
  try {
    const refund = await stripe.refunds.create(
      { ...ticket.args, metadata: { op_id: ticket.marker } },
      { idempotencyKey: ticket.key },
    );
    const { statusCode, headers } = refund.lastResponse;
    return { status: statusCode, headers, body: refund };
  } catch (problem) {
    if (!(problem instanceof Stripe.errors.StripeError) || problem.statusCode === undefined) {
      return { error: String(problem.message) }; // no answer: it may have happened
    }
    return { status: problem.statusCode, headers: problem.headers, body: { error: problem.raw } };
  }
}

function claim(op) {
  return sql('SELECT * FROM op_claim($1, $2)', op, `${TIMEOUT + 10} s`);
}

function report(op, attempt, { status = null, headers = null, body = null, error = null }) {
  return sql(
    'SELECT * FROM op_report($1, $2, $3, $4, $5, $6)',
    op, attempt, status, headers && JSON.stringify(headers), body && Buffer.from(JSON.stringify(body)), error,
  );
}

async function byWorker(op, args) {
  let receipt = await submit(op, 'stripe.refund', args);
  while (receipt.next_action === 'wait') {
    receipt = await wait(op);
  }
  return receipt;
}

async function byClient(op, args) {
  const stripe = client();
  await submit(op, 'sdk.refund', args);
  for (;;) {
    const ticket = await claim(op);
    if (ticket.decision === 'send') {
      await report(op, ticket.attempt, await send(stripe, ticket));
    } else if (ticket.decision === 'done' || ticket.decision === 'review') {
      return sql('SELECT * FROM op_status($1)', op);
    } else { // wait, lookup: somebody else is at it, or it is too early
      await wait(op);
    }
  }
}

const [way, order, line, paymentIntent, amount] = process.argv.slice(2);
await database.connect();
const { id } = await sql("SELECT op_key('refund', $1, $2) AS id", order, line);
const receipt = await { worker: byWorker, client: byClient }[way](id, { payment_intent: paymentIntent, amount: Number(amount) });
console.log(receipt.op_id, receipt.state, receipt.external_id ?? receipt.reason, receipt.next_action);
await database.end();
process.exitCode = receipt.state === 'confirmed' ? 0 : 1;
