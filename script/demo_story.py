#!/usr/bin/env python3
"""The story that script/demo shows: argument 1 is the provider's address."""
import json
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
import uuid

BASE = sys.argv[1]


def say(text=""):
    print(text, flush=True)


def sql(statement):
    print(f"    sql> {statement}", flush=True)
    out = subprocess.run(["psql", "-XqAt", "-F", " | ", "-v", "ON_ERROR_STOP=1", "-c", statement],
                         check=True, capture_output=True, text=True).stdout.rstrip()
    for line in out.splitlines():
        print(f"         {line}", flush=True)
    return out


def control(path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{BASE}/_control/{path}", data=data,
                                     headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.loads(answer.read() or b"null")


def drop_next_answer():
    control("script", [{"match": {"kind": "send"}, "do": "drop", "times": 1}])


def holdings():
    objects = control("effects")["objects"]
    say(f"    the provider holds {len(objects)} refund(s): "
        + ", ".join(f"{o['id']} over {o['amount']}" for o in objects))
    return len(objects)


def naive_refund():
    """What most programs do: a new key each time the function is called."""
    form = urllib.parse.urlencode({"payment_intent": "pi_3Q", "amount": 38000}).encode()
    request = urllib.request.Request(f"{BASE}/v1/refunds", data=form,
                                     headers={"Idempotency-Key": str(uuid.uuid4()),
                                              "Authorization": "Bearer sk_test_not_a_real_secret"})
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return f"answer {answer.status}: {json.loads(answer.read())['id']}"
    except (urllib.error.URLError, ConnectionError, TimeoutError, OSError) as error:
        return f"no answer ({getattr(error, 'reason', error)})"


def without():
    say("1. Without op_ledger. The provider makes the refund, and its answer gets lost.")
    drop_next_answer()
    say(f"    refund(): {naive_refund()}")
    say("    \"no answer\" looks like \"it failed\", so somebody calls again:")
    say(f"    refund(): {naive_refund()}")
    return holdings()


def with_ledger():
    control("reset", {})
    say()
    say("2. With op_ledger. The same refund, the same loss, and again somebody calls twice.")
    sql("CREATE EXTENSION op_ledger")
    sql(f"SELECT op_provider_add('stripe', profile => 'stripe', base_url => '{BASE}', secret => 'file:stripe.key')")
    drop_next_answer()
    submit = ("SELECT state, effect, is_new, next_action FROM op_submit('refund-1043-li_2', 'stripe.refund', "
              "'{\"payment_intent\": \"pi_3Q\", \"amount\": 38000}')")
    sql(submit)
    say("    the answer gets lost; somebody calls again:")
    sql(submit)
    result = sql("SELECT state, effect, external_id, next_action FROM op_wait('refund-1043-li_2', '30 s')")
    say()
    say("    what happened, from the ledger:")
    sql("SELECT event, n, verdict, detail FROM op_timeline('refund-1043-li_2')")
    say()
    return holdings(), result


def main():
    twice = without()
    once, result = with_ledger()
    say()
    say(f"Without: {twice} refunds. With: {once}, and the caller was told so ({result}).")
    if twice != 2 or once != 1 or not result.startswith("confirmed"):
        sys.exit("this is not what the demo promises")


if __name__ == "__main__":
    main()
