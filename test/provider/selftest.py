#!/usr/bin/env python3
"""Does the double do what it says? One test per behaviour, seen from a client's raw socket."""
from __future__ import annotations

import base64
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from wire import Body, Connection, Gone, Head  # noqa: E402

PATIENCE_S = 10
REFUND = {"payment_intent": "pi_1", "amount": 500, "metadata": {"op_id": "op-1"}}


def start(program: str, *options: str) -> tuple[subprocess.Popen[str], list[int]]:
    process = subprocess.Popen([sys.executable, str(HERE / program), *options], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    words = process.stdout.readline().split()
    assert words[0] == "listening", words
    return process, [int(word) for word in words[1:]]


def stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    process.communicate(timeout=PATIENCE_S)


class Client:
    """A client that sees every byte."""

    def __init__(self, port: int, context: ssl.SSLContext | None = None):
        sock = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self.connection = Connection(context.wrap_socket(sock, server_hostname="localhost") if context else sock)

    def post(self, body: Any = None, *, path: str = "/v1/refunds", key: str | None = None, headers: str = "") -> None:
        data = body if isinstance(body, bytes) else json.dumps(REFUND if body is None else body).encode()
        if key is not None:
            headers += f"Idempotency-Key: {key}\r\n"
        self.raw(f"POST {path} HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: {len(data)}\r\n\r\n".encode() + data)

    def get(self, path: str) -> None:
        self.raw(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())

    def raw(self, data: bytes) -> None:
        self.connection.send(data)

    def answer(self) -> tuple[Head, bytes]:
        head = self.connection.read_head()
        if head is None:
            raise Gone("no answer")
        body = Body()
        self.connection.read_body(head, body)
        return head, bytes(body.data)

    def object(self) -> tuple[str, Any]:
        head, body = self.answer()
        return head.start[1], json.loads(body)


class Double(unittest.TestCase):
    """One provider for all tests of a class, reset before each."""

    process: subprocess.Popen[str]
    port: int

    @classmethod
    def setUpClass(cls) -> None:
        cls.process, (cls.port, *_) = start("provider.py")

    @classmethod
    def tearDownClass(cls) -> None:
        stop(cls.process)

    def setUp(self) -> None:
        self.control("POST", "reset")

    def control(self, method: str, verb: str, body: Any = None, status: int = 200) -> Any:
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        client.request(method, f"/_control/{verb}", None if body is None else json.dumps(body))
        answer = client.getresponse()
        text = answer.read()
        client.close()
        self.assertEqual(answer.status, status, text)
        return json.loads(text)

    def script(self, do: Any, **rule: Any) -> None:
        self.control("POST", "script", {"do": do, **rule})

    def config(self, **settings: Any) -> None:
        self.control("POST", "config", settings)

    def effects(self) -> int:
        return self.control("GET", "effects")["total"]

    def log(self) -> list[dict[str, Any]]:
        return self.control("GET", "log")

    def wait(self, query: str) -> None:
        self.assertTrue(self.control("GET", f"wait?timeout={PATIENCE_S}&{query}")["ok"], query)

    def client(self) -> Client:
        client = Client(self.port)
        self.addCleanup(client.connection.close)
        return client

    def refund(self, key: str | None = None, body: Any = None) -> tuple[str, Any]:
        client = self.client()
        client.post(body, key=key)
        return client.object()

    def assert_gone(self, client: Client, error: str) -> None:
        with self.assertRaises(Gone) as raised:
            client.answer()
        self.assertIn(error, str(raised.exception))


class Normal(Double):
    def test_form_and_json_make_the_same_refund(self) -> None:
        form = b"payment_intent=pi_1&amount=500&metadata%5Bop_id%5D=op-1"
        for body in (form, REFUND):
            status, refund = self.refund(body=body)
            self.assertEqual((status, refund["amount"], refund["metadata"], refund["status"]), ("200", 500, {"op_id": "op-1"}, "succeeded"))
        self.assertEqual(self.control("GET", "effects")["by_op"], {"op-1": 2})

    def test_missing_parameter(self) -> None:
        status, error = self.refund(body={"amount": 1})
        self.assertEqual((status, error["error"]["code"], self.effects()), ("400", "parameter_missing", 0))

    def test_log_keeps_raw_bytes_headers_and_connection(self) -> None:
        client, body = self.client(), b'{"payment_intent": "pi_1",  "x": "\xff\x00"}'
        for _ in range(2):
            client.post(body, headers="X-Odd:  a\tb \r\n")
            client.answer()
        first, second = self.log()
        self.assertEqual(base64.b64decode(first["body_base64"]), body)
        self.assertIn(["X-Odd", "a\tb"], first["headers"])
        self.assertEqual((first["n"], second["n"], first["connection"]), (1, 2, second["connection"]))
        self.assertTrue(first["complete"] and first["kind"] == "send" and first["at"] <= second["at"])

    def test_list_pages_newest_first(self) -> None:
        ids = [self.refund()[1]["id"] for _ in range(3)]
        client = self.client()
        client.get("/v1/refunds?payment_intent=pi_1&limit=2")
        page = client.object()[1]
        self.assertEqual(([r["id"] for r in page["data"]], page["has_more"]), ([ids[2], ids[1]], True))
        client.get(f"/v1/refunds?payment_intent=pi_1&limit=2&starting_after={ids[1]}")
        page = client.object()[1]
        self.assertEqual(([r["id"] for r in page["data"]], page["has_more"]), ([ids[0]], False))
        client.get("/v1/refunds?payment_intent=pi_other&limit=2")
        self.assertEqual(client.object()[1]["data"], [])

    def test_page_limit_of_the_provider(self) -> None:
        self.config(page=1)
        self.refund()
        self.refund()
        client = self.client()
        client.get("/v1/refunds?payment_intent=pi_1&limit=100")
        self.assertTrue(client.object()[1]["has_more"])

    def test_one_by_id(self) -> None:
        client, refund = self.client(), self.refund()[1]
        client.get(f"/v1/refunds/{refund['id']}")
        self.assertEqual(client.object(), ("200", refund))
        client.get("/v1/refunds/re_none")
        self.assertEqual(client.object()[0], "404")

    def test_things(self) -> None:
        client = self.client()
        client.post({"reference": "op-9", "color": "red"}, path="/things")
        status, thing = client.object()
        client.get("/things?color=red")
        self.assertEqual((status, client.object()[1]), ("201", {"items": [thing], "more": False}))
        client.get("/things?color=blue")
        self.assertEqual(client.object()[1]["items"], [])
        self.assertEqual(self.control("GET", "effects")["by_op"], {"op-9": 1})

    def test_chunked_request_body(self) -> None:
        client, body = self.client(), json.dumps(REFUND).encode()
        client.raw(b"POST /v1/refunds HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
        self.assertEqual(client.object()[0], "200")

    def test_already_refunded(self) -> None:
        self.config(balances={"pi_1": 500})
        self.assertEqual(self.refund()[0], "200")
        status, error = self.refund()
        self.assertEqual((status, error["error"]["code"], self.effects()), ("400", "charge_already_refunded", 1))

    def test_authorization(self) -> None:
        self.config(authorization="Bearer sk")
        self.assertEqual((self.refund()[0], self.effects()), ("401", 0))
        client = self.client()
        client.post(headers="Authorization: Bearer sk\r\n")
        self.assertEqual(client.object()[0], "200")

    def test_accounts_know_nothing_of_each_other(self) -> None:
        self.config(accounts=True)
        made = []
        for account in ("a", "b", "a"):
            client = self.client()
            client.post(key="k", headers=f"Authorization: Bearer {account}\r\n")
            made.append(client.object()[1]["id"])
        self.assertEqual((made[0] == made[1], made[0] == made[2], self.effects()), (False, True, 2))
        client = self.client()
        client.raw(b"GET /v1/refunds HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer b\r\n\r\n")
        self.assertEqual([row["id"] for row in client.object()[1]["data"]], [made[1]])


class Keys(Double):
    def test_all_replays_success_and_marks_it(self) -> None:
        first = self.refund("k")[1]
        client = self.client()
        client.post(key="k")
        head, body = client.answer()
        self.assertEqual((json.loads(body), head.get("Idempotent-Replayed"), self.effects()), (first, "true", 1))

    def test_marker_header_can_be_left_out(self) -> None:
        self.config(replay_header=False)
        self.refund("k")
        client = self.client()
        client.post(key="k")
        self.assertIsNone(client.answer()[0].get("Idempotent-Replayed"))

    def test_all_replays_errors(self) -> None:
        self.script("stored_500")
        self.assertEqual([self.refund("k")[0] for _ in range(2)], ["500", "500"])
        self.assertEqual(self.effects(), 0)

    def test_success_executes_again_after_an_error(self) -> None:
        self.config(stores="success")
        self.script("effect_then_500")
        self.assertEqual([self.refund("k")[0] for _ in range(2)], ["500", "200"])
        self.assertEqual(self.effects(), 2)

    def test_all_keeps_an_error_after_its_effect(self) -> None:
        self.script("effect_then_500")
        self.assertEqual([self.refund("k")[0] for _ in range(2)], ["500", "500"])
        self.assertEqual(self.effects(), 1)

    def test_state_answers_with_the_object_of_now(self) -> None:
        self.config(stores="state")
        self.script({"object": {"status": "pending"}})
        self.assertEqual(self.refund("k")[1]["status"], "pending")
        self.control("POST", "object", {"op": "op-1", "set": {"status": "succeeded"}})
        self.assertEqual((self.refund("k")[1]["status"], self.effects()), ("succeeded", 1))

    def test_nothing(self) -> None:
        self.config(stores="nothing")
        self.refund("k")
        self.refund("k")
        self.assertEqual(self.effects(), 2)

    def test_429_and_401_do_not_take_the_key(self) -> None:
        for preset in ("429", "401"):
            self.script(preset)
            self.refund("k")
        self.assertEqual((self.refund("k")[0], self.effects()), ("200", 1))

    def test_in_progress(self) -> None:
        self.script({"delay_before": "g"})
        first = self.client()
        first.post(key="k")
        self.wait("waiting=1")
        status, error = self.refund("k")
        self.assertEqual((status, error["error"]["code"]), ("409", "idempotency_key_in_use"))
        self.control("POST", "release", {"gate": "g"})
        self.assertEqual((first.object()[0], self.refund("k")[0], self.effects()), ("200", "200", 1))

    def test_no_lock(self) -> None:
        self.config(lock=False)
        self.script({"delay_before": "g"}, times=2)
        clients = [self.client() for _ in range(2)]
        for client in clients:
            client.post(key="k")
        self.wait("waiting=2")
        self.control("POST", "release", {"gate": "g"})
        self.assertEqual([c.object()[0] for c in clients] + [self.effects()], ["200", "200", 2])

    def test_stuck(self) -> None:
        self.script({"like": "drop", "stuck": True})
        client = self.client()
        client.post(key="k")
        self.assert_gone(client, "no answer")
        self.assertEqual((self.refund("k")[0], self.effects()), ("409", 1))

    def test_mismatch(self) -> None:
        self.refund("k")
        status, error = self.refund("k", {**REFUND, "amount": 1})
        self.assertEqual((status, error["error"]["type"], self.effects()), ("400", "idempotency_error", 1))
        self.config(mismatch_status=422)
        self.assertEqual(self.refund("k", {**REFUND, "amount": 1})[0], "422")

    def test_ttl(self) -> None:
        self.config(ttl=0)
        self.refund("k")
        self.refund("k")
        self.assertEqual(self.effects(), 2)

    def test_forget(self) -> None:
        self.refund("k")
        self.control("POST", "forget_keys", {"key": "k"})
        self.refund("k")
        self.assertEqual(self.effects(), 2)

    def test_effect_then_drop_is_replayed_by_the_same_key(self) -> None:
        self.script("drop")
        client = self.client()
        client.post(key="k")
        self.assert_gone(client, "no answer")
        self.assertEqual((self.refund("k")[0], self.effects()), ("200", 1))


class Silence(Double):
    def check(self, do: Any, error: str, effects: int) -> None:
        self.script(do)
        client = self.client()
        client.post()
        self.assert_gone(client, error)
        self.assertEqual(self.effects(), effects)

    def test_drop(self) -> None:
        self.check("drop", "no answer", 1)

    def test_reset(self) -> None:
        self.check("reset", "no answer", 1)  # nothing was read, so the RST shows as a missing answer
        self.assertEqual(self.log()[0].get("status"), None)

    def test_reset_is_a_reset(self) -> None:
        self.script("reset")
        client = self.client()
        client.post()
        with self.assertRaises(ConnectionResetError):
            client.connection.sock.recv(1)

    def test_drop_before(self) -> None:
        self.check("drop_before", "no answer", 0)

    def test_reset_before(self) -> None:
        self.check("reset_before", "no answer", 0)

    def test_hang_until_the_client_leaves(self) -> None:
        self.script("hang")
        client = self.client()
        client.post()
        self.wait("effects=1")
        self.assertIsNone(self.log()[0]["finished_at"])
        client.connection.close()
        self.wait("finished=1")

    def test_hang_up_from_outside(self) -> None:
        self.script("hang_before")
        client = self.client()
        client.post()
        self.wait("requests=1")
        self.control("POST", "hang_up")
        self.assert_gone(client, "no answer")

    def test_kept_connection_resets_on_its_second_request(self) -> None:
        self.script("reset", match={"nth": 2})
        client = self.client()
        client.post()
        self.assertEqual(client.object()[0], "200")
        client.post()
        self.assert_gone(client, "")
        self.assertEqual(({e["connection"] for e in self.log()}, self.effects()), ({1}, 2))

    def test_close_within_the_request_body(self) -> None:
        self.script({"stop_reading": {"after": 10}})
        client = self.client()
        client.raw(b"POST /v1/refunds HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + b"x" * 5000)
        self.assert_gone(client, "")
        entry, = self.log()
        self.assertEqual((base64.b64decode(entry["body_base64"]), entry["complete"], self.effects()), (b"x" * 10, False, 0))

    def test_client_that_leaves_within_the_body(self) -> None:
        client = self.client()
        client.raw(b"POST /v1/refunds HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc")
        client.connection.close()
        self.wait("finished=1")
        self.assertEqual((self.log()[0]["complete"], self.effects()), (False, 0))


class Answers(Double):
    def ask(self, do: Any) -> tuple[Head, bytes]:
        self.script(do)
        client = self.client()
        client.post()
        return client.answer()

    def test_any_status_headers_and_bytes(self) -> None:
        body = b'{"id": "%ID%", "op": "%MARKER%", "x": "\xff\x00"}'
        spec = {"status": 200, "reason_base64": base64.b64encode(b"O\x00K\xff").decode(), "body_base64": base64.b64encode(body).decode(),
                "headers": [["X-A", "1"], ["X-A", {"base64": base64.b64encode(b"\xff").decode()}]]}
        head, data = self.ask({"answer": spec})
        refund = self.control("GET", "effects")["objects"][0]
        self.assertEqual(data, body.replace(b"%ID%", refund["id"].encode()).replace(b"%MARKER%", b"op-1"))
        self.assertEqual(([v for n, v in head.headers if n == "X-A"], head.start[2]), (["1", "\xff"], "O\x00K\xff"))

    def test_patch(self) -> None:
        refund = json.loads(self.ask({"answer": {"patch": {"status": "weird"}}})[1])
        self.assertEqual((refund["status"], refund["amount"]), ("weird", 500))

    def test_gzip(self) -> None:
        import gzip
        head, data = self.ask({"answer": {"gzip": True}})
        self.assertEqual((head.get("Content-Encoding"), json.loads(gzip.decompress(data))["amount"]), ("gzip", 500))

    def test_errors_take_no_effect_unless_told(self) -> None:
        self.assertEqual((self.ask("500")[0].start[1], self.effects()), ("500", 0))
        self.assertEqual((self.ask("effect_then_500")[0].start[1], self.effects()), ("500", 1))

    def test_429_has_retry_after(self) -> None:
        head, _ = self.ask("429")
        self.assertEqual((head.start[1], head.get("Retry-After"), self.effects()), ("429", "1", 0))

    def test_redirect(self) -> None:
        head, _ = self.ask({"answer": {"status": 307, "headers": {"Location": "http://[broken"}}})
        self.assertEqual((head.start[1], head.get("Location"), self.effects()), ("307", "http://[broken", 0))

    def test_204(self) -> None:
        head, data = self.ask({"answer": {"status": 204, "body": ""}})
        self.assertEqual((head.start[1], data, head.get("Content-Length")), ("204", b"", None))

    def test_interim_answers(self) -> None:
        self.assertEqual(self.ask({"interim": [103]})[0].start[1], "103")

    def test_truncated(self) -> None:
        self.script({"truncate": 5})
        client = self.client()
        client.post()
        self.assert_gone(client, "end of stream")

    def test_body_that_stops_and_hangs(self) -> None:
        self.script({"truncate": 5, "then": "hang"})
        client = self.client()
        client.post()
        head = client.connection.read_head()
        assert head is not None
        self.assertEqual(len(client.connection.take(5)), 5)
        self.assertGreater(head.length, 5)
        self.assertIsNone(self.log()[0]["finished_at"])

    def test_claimed_length(self) -> None:
        self.script({"content_length": 2 << 30, "then": "hang"})
        client = self.client()
        client.post()
        head = client.connection.read_head()
        assert head is not None
        self.assertEqual(head.get("Content-Length"), str(2 << 30))

    def test_chunked(self) -> None:
        head, data = self.ask({"chunked": True})
        self.assertTrue(head.chunked)
        self.assertEqual(json.loads(data)["amount"], 500)

    def test_split(self) -> None:
        self.assertEqual(json.loads(self.ask({"split": {"size": 7}})[1])["amount"], 500)

    def test_endless(self) -> None:
        self.script({"endless": 64})
        client = self.client()
        client.post()
        head = client.connection.read_head()
        assert head is not None
        self.assertTrue(head.chunked)
        client.connection.take(4 << 20)
        client.connection.close()
        self.wait("finished=1")

    def test_gzip_bomb(self) -> None:
        head, data = self.ask({"gzip_bomb": 20})
        self.assertEqual(head.get("Content-Encoding"), "gzip")
        self.assertLess(len(data), 1 << 16)

    def test_huge_headers(self) -> None:
        head, _ = self.ask({"huge_header": 65536, "header_lines": 50})
        self.assertEqual((len(head.get("X-Huge") or ""), head.get("X-Filler-49") is None), (65536, False))

    def test_raw_bytes(self) -> None:
        self.script({"raw_base64": base64.b64encode(b"SSH-2.0-hello\r\n").decode(), "then": "close"})
        client = self.client()
        client.post()
        self.assertEqual(client.connection.take(15), b"SSH-2.0-hello\r\n")

    def test_stray_answer_on_the_kept_connection(self) -> None:
        self.script("stray")
        client = self.client()
        client.post()
        first, second = client.object()[1], client.object()[1]
        self.assertEqual((first["metadata"], second["id"], self.effects()), ({"op_id": "op-1"}, "re_stray", 1))
        client.post()
        self.assertEqual(client.object()[0], "200")

    def test_then_close_and_reset_after_an_answer(self) -> None:
        for end in ("close", "reset"):
            self.script({"then": end})
            client = self.client()
            client.post()
            with self.assertRaises(Gone):  # a reset may overtake the answer, or may not
                self.assertEqual(client.object()[0], "200")
                client.answer()

    def test_expect(self) -> None:
        for manner, status in (("continue", "100"), ("refuse", "417")):
            self.script({"expect": manner})
            client = self.client()
            client.raw(b"POST /v1/refunds HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
            self.assertEqual(client.answer()[0].start[1], status)

    def test_connection_close_of_the_client(self) -> None:
        client = self.client()
        client.post(headers="Connection: close\r\n")
        self.assertEqual(client.object()[0], "200")
        self.assert_gone(client, "no answer")


class Time(Double):
    def test_delay_before_the_effect(self) -> None:
        self.script({"delay_before": "g"})
        client = self.client()
        client.post()
        self.wait("waiting=1")
        self.assertEqual(self.effects(), 0)
        self.control("POST", "release", {"gate": "g"})
        self.assertEqual((client.object()[0], self.effects()), ("200", 1))

    def test_delay_after_the_effect(self) -> None:
        self.script({"delay_after": "g"})
        client = self.client()
        client.post()
        self.wait("waiting=1")
        self.assertEqual(self.effects(), 1)
        self.control("POST", "release", {"gate": "g"})
        self.assertEqual(client.object()[0], "200")

    def test_delay_in_seconds(self) -> None:
        self.script({"delay_after": 0.05})
        began = time.monotonic()
        self.refund()
        self.assertGreaterEqual(time.monotonic() - began, 0.05)

    def test_effect_comes_even_if_the_client_has_left(self) -> None:
        self.script({"delay_arrival": "g"})
        client = self.client()
        client.post()
        self.wait("waiting=1")
        client.connection.close()
        self.control("POST", "release", {"gate": "g"})
        self.wait("effects=1")

    def test_hidden_then_shown(self) -> None:
        self.script({"hide": "forever"})
        refund, client = self.refund()[1], self.client()
        client.get("/v1/refunds?payment_intent=pi_1")
        self.assertEqual(client.object()[1]["data"], [])
        client.get(f"/v1/refunds/{refund['id']}")
        self.assertEqual(client.object()[0], "404")
        self.control("POST", "object", {"op": "op-1", "hide": 0})
        client.get("/v1/refunds?payment_intent=pi_1")
        self.assertEqual(client.object()[1]["data"], [refund])

    def test_pending_turns(self) -> None:
        self.script({"object": {"status": "pending"}, "becomes": {"after": 0.05, "set": {"status": "failed"}}})
        refund, client = self.refund()[1], self.client()
        self.assertEqual(refund["status"], "pending")
        time.sleep(0.06)
        client.get(f"/v1/refunds/{refund['id']}")
        self.assertEqual(client.object()[1]["status"], "failed")
        effects = self.control("GET", "effects")
        self.assertEqual((effects["by_op"], effects["living"]), ({"op-1": 1}, {"op-1": 0}))

    def test_command_in_the_middle(self) -> None:
        self.script({"run": 'echo "$OP_MARKER"; exit 3', "run_after": ""})
        self.script({"run": 'echo "$OP_MARKER"; exit 3'})
        self.refund()
        self.refund()
        self.wait("runs=2")
        self.assertEqual(self.log()[1]["run"], {"status": 3, "stdout": "op-1\n", "stderr": ""})


class Rules(Double):
    def statuses(self, n: int) -> list[str]:
        return [self.refund()[0] for _ in range(n)]

    def test_once_n_times_always(self) -> None:
        self.script("500", times=2)
        self.assertEqual(self.statuses(3), ["500", "500", "200"])
        self.script("500", times="always")
        self.assertEqual(self.statuses(3), ["500"] * 3)

    def test_nth_and_order(self) -> None:
        self.script("500", match={"nth": 2})
        self.script("429")
        self.assertEqual(self.statuses(3), ["429", "500", "200"])

    def test_matches(self) -> None:
        for match in ({"op": "op-1"}, {"path": "^/v1/ref"}, {"kind": "send"}, {"contains": "pi_1"}, {"header": {"Host": "^x$"}}, {"method": "POST"}):
            self.script("500", match=match)
            self.assertEqual(self.refund()[0], "500", match)
        for match in ({"op": "op-2"}, {"path": "^/things"}, {"kind": "lookup"}, {"contains": "pi_2"}, {"header": {"Host": "y"}}, {"method": "GET"}):
            self.script("500", match=match)
            self.assertEqual(self.refund()[0], "200", match)

    def test_probability_is_repeatable(self) -> None:
        seen = []
        for _ in range(2):
            self.control("POST", "reset")
            self.config(seed=7)
            self.script("500", match={"probability": 0.5}, times="always")
            seen.append(self.statuses(12))
        self.assertEqual(seen[0], seen[1])
        self.assertEqual(set(seen[0]), {"200", "500"})

    def test_unknown_names_are_refused(self) -> None:
        for rule in ({"do": "explode"}, {"do": {"exlode": 1}}, {"match": {"pth": "x"}}, {"match": {"op": "x"}, "do": {"expect": "refuse"}}):
            self.assertIn("ScriptError", self.control("POST", "script", rule, status=400)["error"])
        self.control("POST", "config", {"tll": 3}, status=400)
        self.control("POST", "object", {"op": "nobody"}, status=400)

    def test_unused_rules_are_listed(self) -> None:
        self.script("500", times=2)
        self.refund()
        self.assertEqual([r["left"] for r in self.control("GET", "script")], [1])

    def test_wait_gives_up(self) -> None:
        self.assertFalse(self.control("GET", "wait?requests=1&timeout=0.05")["ok"])

    def test_wait_for_effects_of_one(self) -> None:
        self.refund()
        self.wait("effects=1&op=op-1")
        self.assertFalse(self.control("GET", "wait?effects=1&op=op-2&timeout=0.05")["ok"])

    def test_wait_wakes(self) -> None:
        client = self.client()
        timer = threading.Timer(0.05, client.post)
        timer.start()
        self.wait("requests=1&kind=send&op=op-1")
        timer.join()


class DeadEnds(Double):
    def test_refused_silent_full(self) -> None:
        ports = self.control("GET", "ports")
        with self.assertRaises(ConnectionRefusedError):
            Client(ports["refused"])
        silent = Client(ports["silent"])
        self.addCleanup(silent.connection.close)
        silent.connection.sock.settimeout(0.05)
        with self.assertRaises(Gone):
            silent.answer()
        with self.assertRaises(TimeoutError):
            socket.create_connection(("127.0.0.1", ports["full"]), 0.05)
        self.control("POST", "open_full")
        client = Client(ports["full"])
        self.addCleanup(client.connection.close)
        client.post()
        self.assertEqual(client.object()[0], "200")


def certificate(folder: str) -> list[str]:
    files = [f"{folder}/cert.pem", f"{folder}/key.pem"]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost", "-addext",
                    "subjectAltName=DNS:localhost,IP:127.0.0.1", "-out", files[0], "-keyout", files[1]], check=True, capture_output=True)
    return files


class Processes(unittest.TestCase):
    def test_tls(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            cert, key = certificate(folder)
            process, (_, tls_port) = start("provider.py", "--cert", cert, "--key", key)
            try:
                client = Client(tls_port, ssl.create_default_context(cafile=cert))
                client.post()
                self.assertEqual(client.object()[0], "200")
                client.connection.close()
            finally:
                stop(process)

    def test_ends_with_its_parent(self) -> None:
        child = f"[sys.executable, {str(HERE / 'provider.py')!r}]"
        code = f"import subprocess, sys; p = subprocess.Popen({child}, stdout=subprocess.PIPE); p.stdout.readline(); print(p.pid)"
        pid = int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and _alive(pid):
            time.sleep(0.1)
        self.assertFalse(_alive(pid))


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


class Proxy(Double):
    """The dropping proxy, with the double itself as the server behind it."""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.double = cls.port
        cls.proxy, (cls.port, *_) = start("dropping_proxy.py", "--upstream", f"127.0.0.1:{cls.double}")

    @classmethod
    def tearDownClass(cls) -> None:
        stop(cls.proxy)
        super().tearDownClass()

    def upstream_log(self) -> list[dict[str, Any]]:
        client = http.client.HTTPConnection("127.0.0.1", self.double, timeout=PATIENCE_S)
        client.request("GET", "/_control/log")
        rows: list[dict[str, Any]] = json.loads(client.getresponse().read())
        client.close()
        return rows

    def test_forwards_bytes_as_they_are(self) -> None:
        client, before = self.client(), len(self.upstream_log())
        for _ in range(2):
            client.post(key="k1")
            self.assertEqual(client.object()[0], "200")
        entry = self.upstream_log()[before]
        self.assertEqual((entry["body_base64"], entry["headers"]), (self.log()[0]["body_base64"], self.log()[0]["headers"]))

    def test_loses_the_nth_answer(self) -> None:
        self.script("drop", match={"method": "POST", "path": "^/v1/refunds", "nth": 2})
        before, client = len(self.upstream_log()), self.client()
        client.post()
        self.assertEqual(client.object()[0], "200")
        client.post()
        self.assert_gone(client, "no answer")
        self.assertEqual((len(self.upstream_log()) - before, self.log()[1]["dropped"]), (2, True))

    def test_keeps_the_request_from_the_server(self) -> None:
        self.script("reset_before")
        before, client = len(self.upstream_log()), self.client()
        client.post()
        self.assert_gone(client, "")
        self.assertEqual(len(self.upstream_log()), before)


if __name__ == "__main__":
    unittest.main(verbosity=1 if len(sys.argv) < 2 else 2)
