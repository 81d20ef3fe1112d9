#!/usr/bin/env python3
"""A harness that refunds an order line, once: by the worker, or by itself.

    harness.py worker ORDER LINE PAYMENT_INTENT AMOUNT      submit, and wait
    harness.py client ORDER LINE PAYMENT_INTENT AMOUNT      submit, claim, send, report

Python's standard library and psql. The database is PGHOST, PGDATABASE, …; STRIPE_KEY is the
secret of a client that sends by itself. psql.sql shows how the two providers are set up.
Run it as often as you like, kill it when you like: the refund happens once.
"""
import http.client
import json
import os
import subprocess
import sys
from urllib.parse import urlsplit

TIMEOUT = 20  # seconds for one request; the lease is a little more


def sql(query, **values):
    """The only row of a query, as JSON. Each call is a transaction of its own, so what it did is
    committed when it returns: op_claim() counts on that."""
    settings = [option for name, value in values.items() for option in ("-v", f"{name}={value}")]
    result = subprocess.run(["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", *settings],
                            input=f"SELECT to_jsonb(r) FROM ({query}) AS r", text=True, capture_output=True)
    if result.returncode != 0:
        raise SystemExit(result.stderr)
    return json.loads(result.stdout)


def submit(op, action, payment_intent, amount):
    """The id says what is done. Again with the same arguments: the first one answers."""
    return sql("SELECT * FROM op_submit(:'op', :'action', :'args')", op=op, action=action,
               args=json.dumps({"payment_intent": payment_intent, "amount": int(amount)}))


def wait(op):
    return sql("SELECT * FROM op_wait(:'op', '5 s')", op=op)


def send(ticket):
    """Exactly the frozen request, once: no redirects, no retries. Says what was seen."""
    url = urlsplit(ticket["url"])
    kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    connection = kind(url.netloc, timeout=TIMEOUT)
    headers = dict(line.split(": ", 1) for line in ticket["headers"])
    headers["Authorization"] = "Bearer " + os.environ["STRIPE_KEY"]
    try:
        connection.connect()
    except OSError as problem:
        return {"error": str(problem), "sent": "false"}  # surely no byte left
    try:
        target = url.path + ("?" + url.query if url.query else "")
        connection.request(ticket["method"], target, bytes.fromhex(ticket["hex"] or ""), headers)
        answer = connection.getresponse()
        return {"status": answer.status, "headers": json.dumps(dict(answer.getheaders())), "body": answer.read().hex()}
    except (OSError, http.client.HTTPException) as problem:
        return {"error": str(problem) or type(problem).__name__}  # it may have happened
    finally:
        connection.close()


def claim(op):
    return sql("SELECT *, encode(t.body, 'hex') AS hex FROM op_claim(:'op', :'lease') AS t", op=op, lease=f"{TIMEOUT + 10} s")


def report(op, attempt, seen):
    empty = {"status": "", "headers": "", "body": "", "error": "", "sent": ""}
    return sql("SELECT * FROM op_report(:'op', :attempt, nullif(:'status', '')::int, nullif(:'headers', '')::jsonb,"
               " decode(nullif(:'body', ''), 'hex'), nullif(:'error', ''), nullif(:'sent', '')::boolean)",
               op=op, attempt=attempt, **(empty | seen))


def by_worker(op, payment_intent, amount):
    receipt = submit(op, "stripe.refund", payment_intent, amount)
    while receipt["next_action"] == "wait":
        receipt = wait(op)
    return receipt


def by_client(op, payment_intent, amount):
    submit(op, "sdk.refund", payment_intent, amount)
    while True:
        ticket = claim(op)
        if ticket["decision"] == "send":
            report(op, ticket["attempt"], send(ticket))
        elif ticket["decision"] in ("done", "review"):
            return sql("SELECT * FROM op_status(:'op')", op=op)
        else:  # wait, lookup: somebody else is at it, or it is too early
            wait(op)


def main():
    way, order, line, payment_intent, amount = sys.argv[1:]
    op = sql("SELECT op_key('refund', :'order', :'line') AS id", order=order, line=line)["id"]
    receipt = {"worker": by_worker, "client": by_client}[way](op, payment_intent, amount)
    print(receipt["op_id"], receipt["state"], receipt["external_id"] or receipt["reason"], receipt["next_action"])
    return 0 if receipt["state"] == "confirmed" else 1


if __name__ == "__main__":
    sys.exit(main())
