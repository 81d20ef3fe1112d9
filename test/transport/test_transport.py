"""What src/transport.c promises, against servers that misbehave. make check"""

import email.utils
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from servers import Connection, Server, make_certificates

HERE = os.path.dirname(os.path.abspath(__file__))


class Transport:
    """One process with one transport; its connections are kept between runs."""

    def __init__(self, **environment):
        self.process = subprocess.Popen([f"{HERE}/build/exchange"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1,
                                        env={**os.environ, **environment})

    def send(self, token, method, url, **options):
        fields = [f"{name}={v}" for name, value in options.items()
                  for v in (value if isinstance(value, list) else [value])]
        self.process.stdin.write("\t".join(["send", token, method, url, *fields]) + "\n")

    def lines(self):
        self.process.stdin.flush()
        for line in iter(self.process.stdout.readline, "\n"):
            if not line:
                raise RuntimeError(f"the transport ended: {self.process.wait()}")
            yield json.loads(line)

    def run(self):
        self.process.stdin.write("run\n")
        return {e["token"]: e for e in self.lines()}

    def one(self, method, url, **options):
        self.send("one", method, url, **options)
        return self.run()["one"]

    def bench(self, count, places, method, url, **options):
        fields = [f"{name}={value}" for name, value in options.items()]
        self.process.stdin.write("\t".join(["bench", str(count), str(places), method, url, *fields]) + "\n")
        return next(iter(list(self.lines())))

    def close(self):
        self.process.stdin.close()
        code = self.process.wait(5)
        self.process.stdout.close()
        return code


class Case(unittest.TestCase):
    def setUp(self):
        self.transport = Transport()

    def tearDown(self):
        self.assertEqual(self.transport.close(), 0)

    def server(self, handle, **options):
        server = Server(handle, **options)
        self.addCleanup(server.close)
        return server

    def assertEvidence(self, evidence, **expected):
        self.assertEqual({name: evidence[name] for name in expected}, expected, evidence)

    def assertNotSent(self, evidence, phase):
        self.assertEvidence(evidence, sent=0, phase=phase, bytes_sent=0, status=0, body="", headers="")


def always(c: Connection):
    while True:
        c.request()
        c.answer(b'{"id": "re_1"}')


def fill_backlog(case, listener):
    """From now on the kernel answers no SYN."""
    for _ in range(4):
        c = socket.socket()
        c.setblocking(False)
        c.connect_ex(listener.getsockname())
        case.addCleanup(c.close)


class OneRequest(Case):
    def test_plain_exchange(self):
        s = self.server(always)
        e = self.transport.one("POST", s.url + "/v1/refunds?a=b#c", body='{"a":1}',
                               header=["Content-Type: application/json", "Idempotency-Key: k"])
        self.assertEvidence(e, sent=1, phase="done", code=0, status=200, body='{"id": "re_1"}',
                            headers="HTTP/1.1 200 OK\r\nContent-Length: 14\r\n", error="",
                            bytes_sent=s.raw, peer=f"127.0.0.1:{s.port}", too_late=0, cut=0)
        self.assertEqual(s.requests[0][1].split("\r\n"),
                         ["POST /v1/refunds?a=b HTTP/1.1", f"Host: 127.0.0.1:{s.port}", "Accept: */*",
                          "Content-Type: application/json", "Idempotency-Key: k", "Content-Length: 7"])
        self.assertGreaterEqual(e["first_byte_us"], e["connect_us"])
        self.assertGreaterEqual(e["total_us"], e["first_byte_us"])

    def test_methods_and_sizes(self):
        s = self.server(always)
        for method, options in [("GET", {}), ("POST", {}), ("DELETE", {}), ("PUT", {}), ("PATCH", {"body": "x"}),
                                ("POST", {"size": 70_000}), ("POST", {"size": 3_000_000}), ("GET", {"body": "q"}),
                                ("DELETE", {"body": "d"}), ("GET", {}), ("POST", {"size": 65_536})]:
            s.raw = 0
            e = self.transport.one(method, s.url, **options)
            self.assertEvidence(e, phase="done", status=200, bytes_sent=s.raw)
            head, body = s.requests[-1][1:]
            self.assertEqual(head.split()[0], method)
            self.assertEqual(len(body), options.get("size", len(options.get("body", ""))))
            self.assertNotIn("Expect", head)
            self.assertNotIn("Content-Type", head)
        self.assertEqual(s.connections, 1)

    def test_each_goes_to_its_own_url(self):
        """A handle keeps the last URL parsed: one that differs, or is none, leaves nothing behind."""
        s, other = self.server(always), self.server(always)
        for target in ("/a", "/a", "/b?c=d", "/a", "", "/a?", "/a#f", "/a"):
            e = self.transport.one("POST", s.url + target, body="1")
            self.assertEvidence(e, phase="done", bytes_sent=s.raw)
            path = target.split("#")[0].removesuffix("?") or "/"
            self.assertEqual(s.requests[-1][1].split()[1].removesuffix("?"), path)
            s.raw = 0
        for url in ("http://a:b@127.0.0.1:1/", "http://", "a=b", "/a", f"http://[::1]:{other.port}/a", "ftp://127.0.0.1/"):
            self.assertNotSent(self.transport.one("POST", url, body="1"), "connect" if "[" in url else "none")
            self.assertEvidence(self.transport.one("POST", s.url + "/a", body="1"), phase="done")
        self.assertEvidence(self.transport.one("POST", other.url + "/a", body="1"), phase="done")
        self.assertEqual(s.requests[-1][1].split()[1], "/a")
        self.assertEqual((s.connections, len(s.requests), len(other.requests)), (1, 14, 1))

    def test_head_has_no_body(self):
        def handle(c):
            c.request()
            c.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            always(c)
        s = self.server(handle)
        self.assertEvidence(self.transport.one("HEAD", s.url), phase="done", status=200, body="")
        self.assertEvidence(self.transport.one("GET", s.url), phase="done", status=200, body='{"id": "re_1"}')
        self.assertEqual(s.connections, 1)

    def test_dead_reused_connection_is_one_hit(self):
        def handle(c):
            c.request()
            c.answer()
            c.request()  # takes the second request and dies without a word
            c.reset()
        for close in (lambda c: c.reset(), lambda c: c.wire.close()):
            def handle(c, close=close):
                c.request()
                c.answer()
                c.request()
                close(c)
            s = self.server(handle)
            self.assertEvidence(self.transport.one("POST", s.url, body="1"), phase="done")
            s.raw = 0
            e = self.transport.one("POST", s.url, body="2")
            self.assertEvidence(e, sent=1, phase="sent", status=0, code=42, bytes_sent=s.raw)
            self.assertIn("again", e["error"])
            self.assertEqual([r[2] for r in s.requests], [b"1", b"2"])
            s.raw = 0
            self.assertEvidence(self.transport.one("POST", s.url, size=100_000), phase="done")

    def test_dead_reused_connection_with_a_large_body(self):
        def handle(c):
            c.request()
            c.answer()
            c.head()
            c.reset()
        s = self.server(handle)
        self.transport.one("POST", s.url, body="1")
        e = self.transport.one("POST", s.url, size=5_000_000)
        self.assertEvidence(e, sent=1, phase="sent", status=0)
        self.assertGreaterEqual(e["bytes_sent"], len(s.requests[1][1]))
        self.assertEqual(len(s.requests), 2)

    def test_empty_answer_on_a_new_connection(self):
        s = self.server(lambda c: c.request())
        self.assertEvidence(self.transport.one("POST", s.url, body="1"), sent=1, phase="sent", code=52, status=0)
        self.assertEqual(len(s.requests), 1)

    def test_417_and_expect(self):
        def handle(c):
            c.head()
            c.answer(b"no", "417 Expectation Failed")
            c.wait_for_close()
        s = self.server(handle)
        e = self.transport.one("POST", s.url, size=2_000_000, header=["Expect: 100-continue"])
        self.assertEvidence(e, sent=1, status=417)
        self.assertEqual(len(s.requests), 1)
        self.assertNotIn("Expect", s.requests[0][1])

    def test_redirect_and_401_are_answers(self):
        for status in ("307 Temporary Redirect", "308 Permanent Redirect", "303 See Other", "401 Unauthorized"):
            def handle(c, status=status):
                c.request()
                c.answer(b"", status, [f"Location: http://127.0.0.1:{s.port}/other",
                                       'WWW-Authenticate: Basic realm="x"'])
                always(c)
            s = self.server(handle)
            e = self.transport.one("POST", s.url, body="1")
            self.assertEvidence(e, sent=1, phase="done", status=int(status[:3]), code=0)
            self.assertEqual(len(s.requests), 1)

    def test_header_that_makes_two_requests_is_refused(self):
        s = self.server(always)
        e = self.transport.one("POST", s.url + "/\rX: y", body="1")
        self.assertNotSent(e, "none")
        for header in ("X: 1\rY: 2", "no colon"):
            self.assertNotSent(self.transport.one("POST", s.url, body="1", header=[header]), "none")
        e = self.transport.one("PO ST", s.url, body="1")
        self.assertNotSent(e, "none")
        e = self.transport.one("POST", s.url, body="12", header=["Content-Length: 1", "Transfer-Encoding: chunked"])
        self.assertEvidence(e, sent=1, phase="done", bytes_sent=s.raw)
        self.assertEqual([r[2] for r in s.requests], [b"12"])
        self.assertNotIn("Transfer", s.requests[0][1])


class OneAnswer(Case):
    STRAY = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstray"

    def check_stray(self, s, wait=0.2):
        for n in range(4):
            e = self.transport.one("POST", s.url, body=str(n), **self.options)
            self.assertEvidence(e, sent=1, phase="done", status=200, body=f"answer {n}")
            time.sleep(wait)
        self.assertEqual([r[2] for r in s.requests], [b"0", b"1", b"2", b"3"])

    options = {}

    def test_stray_answer_later(self):
        def handle(c):
            while True:
                body = c.request()[1]
                c.answer(b"answer " + body)
                time.sleep(0.05)
                c.send(self.STRAY)
        s = self.server(handle)
        self.check_stray(s)
        self.assertEqual(s.connections, 4)

    def test_stray_answer_with_the_answer(self):
        def handle(c):
            while True:
                body = c.request()[1]
                c.send(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nanswer " + body + self.STRAY)
        self.check_stray(self.server(handle))

    def test_stray_answer_behind_a_body_of_its_own_segment(self):
        def handle(c):
            while True:
                body = c.request()[1]
                c.send(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n")
                time.sleep(0.05)
                c.send(b"answer " + body + self.STRAY)
        self.check_stray(self.server(handle))

    def test_half_a_stray_answer(self):
        def handle(c):
            while True:
                body = c.request()[1]
                c.send(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nanswer " + body + self.STRAY[:9])
                time.sleep(0.05)
                c.send(self.STRAY[9:])
        self.check_stray(self.server(handle))

    def test_stray_after_chunks_and_after_no_body(self):
        def handle(c):
            while True:
                body = c.request()[1]
                c.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\nanswer " + body +
                       b"\r\n0\r\n\r\n" + self.STRAY)
        self.check_stray(self.server(handle))

    def test_closed_while_idle(self):
        def handle(c):
            c.answer(b"answer " + c.request()[1])
            time.sleep(0.05)
        s = self.server(handle)
        self.check_stray(s)
        self.assertEqual(s.connections, 4)

    def test_server_that_speaks_first(self):
        listener = socket.socket()  # its backlog is full: our SYN is dropped, and comes again
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        self.addCleanup(listener.close)
        fill_backlog(self, listener)
        self.transport.send("one", "POST", f"http://127.0.0.1:{listener.getsockname()[1]}", body="1",
                            connect=10_000, total=20_000, before=20_000)
        self.transport.process.stdin.write("run\n")
        self.transport.process.stdin.flush()
        time.sleep(0.2)
        self.transport.process.send_signal(signal.SIGSTOP)
        listener.settimeout(3.5)
        greeted = []
        try:
            while True:
                greeted.append(listener.accept()[0])
                greeted[-1].sendall(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
        except TimeoutError:
            pass
        self.transport.process.send_signal(signal.SIGCONT)
        listener.settimeout(10)
        server = self.server(always)
        always_there = Connection(server, listener.accept()[0], 1)
        always_there.request()
        always_there.answer()
        e = next(iter(list(self.transport.lines())))
        self.assertEvidence(e, sent=1, phase="done", status=200)
        for wire in greeted:
            wire.setblocking(False)
            try:
                self.assertEqual(wire.recv(1000), b"")
            except (BlockingIOError, ConnectionResetError):
                pass
            wire.close()

    def test_many_on_many_connections(self):
        def handle(c):
            for _ in range(3):
                body = c.request()[1]
                c.answer(b"answer " + body)
            c.send(self.STRAY)
            c.wait_for_close()
        s = self.server(handle)
        for _ in range(20):
            for n in range(64):
                self.transport.send(str(n), "POST", s.url, body=n)
            for n, e in self.transport.run().items():
                if e["phase"] != "done":  # the stray answer overtook our look
                    self.assertEvidence(e, sent=1, code=42)
                else:
                    self.assertIn(e["body"], (f"answer {n}", "stray"))
        self.assertLessEqual(len(s.requests), 20 * 64)


class OneAnswerTls(OneAnswer):
    """The same stories, encrypted."""

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        cls.tls = make_certificates(cls.directory)
        cls.options = {"ca": f"{cls.directory}/ca.pem"}

    def server(self, handle, **options):
        return super().server(handle, tls=self.tls, **options)

    def test_server_that_speaks_first(self):
        self.skipTest("session tickets speak first")

    def test_many_on_many_connections(self):
        self.skipTest("plain is enough")

    def test_kept_connection_is_no_false_alarm(self):
        s = self.server(always)
        for _ in range(20):
            self.assertEvidence(self.transport.one("POST", s.url, body="1", **self.options), phase="done")
        self.assertEqual(s.connections, 1)

    def test_untrusted(self):
        s = self.server(always)
        e = self.transport.one("POST", s.url, body="1")
        self.assertNotSent(e, "tls")
        self.assertEqual(e["code"], 60)

    def test_ca_file_and_back(self):
        s = self.server(always)
        self.assertEvidence(self.transport.one("POST", s.url, body="1", **self.options), phase="done")
        self.assertNotSent(self.transport.one("POST", s.url, body="1"), "tls")
        e = self.transport.one("POST", s.url, body="1", ca="/nowhere.pem")
        self.assertNotSent(e, "tls")
        self.assertEqual(len(s.requests), 1)

    def test_http_2_is_never_offered(self):
        # Case 11: HTTP/2 repeats refused streams by itself, so it is not spoken.
        spoken = []

        def handle(connection):
            spoken.append(connection.wire.selected_alpn_protocol())
            always(connection)

        self.tls.set_alpn_protocols(["h2", "http/1.1"])
        self.addCleanup(self.tls.set_alpn_protocols, ["http/1.1"])
        s = self.server(handle)
        self.assertEvidence(self.transport.one("POST", s.url, body="1", **self.options), phase="done")
        self.assertEqual(len(spoken), 1)
        self.assertIn(spoken[0], (None, "http/1.1"))

    def test_wrong_name(self):
        s = self.server(always)
        e = self.transport.one("POST", s.url.replace("127.0.0.1", "127.0.0.2"), body="1", **self.options)
        self.assertNotSent(e, "connect")  # it listens on 127.0.0.1 alone
        any_address = Server(always, tls=self.tls, host="0.0.0.0")
        self.addCleanup(any_address.close)
        e = self.transport.one("POST", f"https://127.0.0.2:{any_address.port}", body="1", **self.options)
        self.assertNotSent(e, "tls")

    def test_plain_server(self):
        s = Server(lambda c: c.send(b"hello\r\n"))
        self.addCleanup(s.close)
        self.assertNotSent(self.transport.one("POST", f"https://127.0.0.1:{s.port}", body="1"), "tls")


class NotSent(Case):
    def test_refused(self):
        with socket.create_server(("127.0.0.1", 0)) as s:
            port = s.getsockname()[1]
        e = self.transport.one("POST", f"http://127.0.0.1:{port}", body="1")
        self.assertNotSent(e, "connect")
        self.assertEqual(e["code"], 7)

    def test_no_address(self):
        e = self.transport.one("POST", "http://nowhere.invalid/", body="1")
        self.assertNotSent(e, "resolve")

    def test_not_a_url(self):
        for url in ("ftp://127.0.0.1/", "file:///etc/passwd", "http://", "http://a:b@127.0.0.1:1/", "http://127.0.0.1:99999/"):
            self.assertNotSent(self.transport.one("POST", url, body="1"), "none")

    def test_too_late_at_once(self):
        s = self.server(always)
        e = self.transport.one("POST", s.url, body="1", before=-1)
        self.assertNotSent(e, "none")
        self.assertEvidence(e, too_late=1)
        self.assertEqual(s.connections, 0)

    def test_too_late_after_the_handshake(self):
        with tempfile.TemporaryDirectory() as directory:
            tls = make_certificates(directory)
            plain = socket.create_server(("127.0.0.1", 0))
            self.addCleanup(plain.close)
            self.transport.send("one", "POST", f"https://127.0.0.1:{plain.getsockname()[1]}", body="1",
                                before=300, ca=f"{directory}/ca.pem")
            self.transport.process.stdin.write("run\n")
            self.transport.process.stdin.flush()
            wire, _ = plain.accept()
            time.sleep(0.5)
            tls.wrap_socket(wire, server_side=True).close()
            e = next(iter(list(self.transport.lines())))
            self.assertNotSent(e, "tls")
            self.assertEvidence(e, too_late=1, code=42)


class Timeouts(Case):
    def full_server(self):
        s = socket.socket()
        s.bind(("127.0.0.1", 0))
        s.listen(0)
        self.addCleanup(s.close)
        fill_backlog(self, s)
        return s.getsockname()[1]

    def test_connect(self):
        e = self.transport.one("POST", f"http://127.0.0.1:{self.full_server()}", body="1", connect=300)
        self.assertNotSent(e, "connect")
        self.assertEvidence(e, code=28)
        self.assertLess(e["took_us"], 600_000)

    def test_tls(self):
        s = self.server(lambda c: c.wait_for_close() or time.sleep(5))
        e = self.transport.one("POST", f"https://127.0.0.1:{s.port}", body="1", connect=300)
        self.assertNotSent(e, "tls")
        self.assertEvidence(e, code=28)

    def test_first_byte(self):
        s = self.server(lambda c: c.request() and time.sleep(5))
        e = self.transport.one("POST", s.url, body="1", total=300)
        self.assertEvidence(e, sent=1, phase="sent", code=28, status=0, bytes_sent=s.raw, first_byte_us=0)
        self.assertLess(e["took_us"], 600_000)

    def test_half_a_status_line(self):
        s = self.server(lambda c: c.request() and c.send(b"HTTP/1.1 2") or time.sleep(5))
        self.assertEvidence(self.transport.one("POST", s.url, body="1", total=300), sent=1, phase="sent", code=28, status=0)

    def test_only_a_100(self):
        s = self.server(lambda c: c.request() and c.send(b"HTTP/1.1 102 Processing\r\n\r\n") or time.sleep(5))
        self.assertEvidence(self.transport.one("POST", s.url, body="1", total=300), sent=1, phase="sent", code=28,
                            status=0, headers="")

    def test_middle_of_body(self):
        def handle(c):
            c.request()
            c.send(b"HTTP/1.1 201 Created\r\nContent-Length: 100\r\nX: y\r\n\r\nhalf")
            time.sleep(5)
        s = self.server(handle)
        e = self.transport.one("POST", s.url, body="1", total=300)
        self.assertEvidence(e, sent=1, phase="head", code=28, status=201, body="half",
                            headers="HTTP/1.1 201 Created\r\nContent-Length: 100\r\nX: y\r\n")

    def test_total_spans_a_stale_connection(self):
        def handle(c):
            if c.number == 1:
                c.request()
                c.answer()
            else:
                time.sleep(5)
        s = self.server(handle)
        self.transport.one("POST", s.url, body="1")
        time.sleep(0.1)
        e = self.transport.one("POST", s.url, body="1", total=300)
        self.assertEvidence(e, sent=1, phase="sent", code=28)
        self.assertLess(e["took_us"], 600_000)


class Answers(Case):
    def answer_with(self, raw, **options):
        def handle(c):
            c.request()
            c.send(raw)
        return self.transport.one("POST", self.server(handle).url, body="1", **options)

    def test_truncated(self):
        e = self.answer_with(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        self.assertEvidence(e, sent=1, phase="head", code=18, status=200, body="half", cut=0)
        e = self.answer_with(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")
        self.assertEvidence(e, sent=1, phase="head", code=18, status=200, body="half")
        e = self.answer_with(b"HTTP/1.1 200 OK\r\nContent-Le")
        self.assertEvidence(e, sent=1, phase="head", code=18, status=200)
        e = self.answer_with(b"HTTP/1.1 200 OK")
        self.assertEvidence(e, sent=1, phase="sent", code=52)
        e = self.answer_with(b"HTTP/1.1 100 Continue\r\n\r\n")
        self.assertEvidence(e, sent=1, phase="sent", status=0)
        self.assertNotEqual(e["code"], 0)

    def test_cut(self):
        e = self.answer_with(b"HTTP/1.1 200 OK\r\n\r\n" + b"y" * 5000, limit=1000)
        self.assertEvidence(e, sent=1, phase="head", code=23, status=200, cut=1, body="y" * 1000)
        e = self.answer_with(b"HTTP/1.1 200 OK\r\n\r\n" + b"y" * 1000, limit=1000)
        self.assertEvidence(e, phase="done", code=0, cut=0, body="y" * 1000)
        e = self.answer_with(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\ny", limit=0)
        self.assertEvidence(e, phase="head", cut=1, body="")

    def test_switching_protocols_is_no_success(self):
        e = self.answer_with(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nzzz", total=300)
        self.assertEvidence(e, sent=1, status=101)

    def test_nothing_is_unpacked(self):
        e = self.answer_with(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nzzzz")
        self.assertEvidence(e, phase="done", body="zzzz")

    def test_garbage(self):
        for raw in (b"\0\1\2\3", b"220 smtp\r\n\r\n", b"\r\n\r\n"):
            e = self.answer_with(raw)
            self.assertEvidence(e, sent=1, phase="sent", status=0)
            self.assertNotEqual(e["code"], 0)

    def test_odd_status_lines(self):
        self.assertEvidence(self.answer_with(b"HTTP/1.1 299\r\n\r\n"), phase="done", status=299)
        self.assertEvidence(self.answer_with(b"HTTP/1.0 404 Not 200 Found\r\n\r\n"), phase="done", status=404)

    def test_headers_of_the_last_answer_only(self):
        e = self.answer_with(b"HTTP/1.1 103 Early\r\nA: 1\r\n\r\nHTTP/1.1 200 OK\r\nB: 2\r\n"
                             b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nTrailer: 3\r\n\r\n")
        self.assertEvidence(e, phase="done", headers="HTTP/1.1 200 OK\r\nB: 2\r\nTransfer-Encoding: chunked\r\n")

    def test_headers_without_end(self):
        lines = b"".join(b"X-%d: %s\r\n" % (n, b"v" * 500) for n in range(400))
        e = self.answer_with(b"HTTP/1.1 200 OK\r\n" + lines + b"Content-Length: 1\r\n\r\nx")
        self.assertEvidence(e, sent=1, status=200)
        self.assertLessEqual(len(e["headers"]), 65536)
        self.assertGreater(len(e["headers"]), 60000)

    def test_retry_after(self):
        e = self.answer_with(b"HTTP/1.1 429 Slow\r\nRetry-After: 17\r\nContent-Length: 0\r\n\r\n")
        self.assertEvidence(e, status=429, retry_after=17)
        date = email.utils.formatdate(time.time() + 100, usegmt=True)
        e = self.answer_with(f"HTTP/1.1 429 Slow\r\nRetry-After: {date}\r\nContent-Length: 0\r\n\r\n".encode())
        self.assertIn(e["retry_after"], (98, 99, 100))
        date = email.utils.formatdate(time.time() - 100, usegmt=True)
        e = self.answer_with(f"HTTP/1.1 429 Slow\r\nRetry-After: {date}\r\nContent-Length: 0\r\n\r\n".encode())
        self.assertEvidence(e, retry_after=0)
        e = self.answer_with(b"HTTP/1.1 429 Slow\r\nRetry-After: 99999999999999999999\r\nContent-Length: 0\r\n\r\n")
        self.assertEvidence(e, status=429)
        self.assertEvidence(self.answer_with(b"HTTP/1.1 200 OK\r\n\r\n"), retry_after=0)

    def test_early_answer_to_a_large_body(self):
        def handle(c):
            c.head()
            c.answer(b"too large", "413 Too Large", ["Connection: close"])
            c.reset()
        s = self.server(handle)
        e = self.transport.one("POST", s.url, size=20_000_000)
        self.assertEvidence(e, sent=1)
        self.assertLess(e["bytes_sent"], 20_000_000)


class Proxies(Case):
    def test_environment_is_ignored(self):
        proxy = self.server(always)
        s = self.server(always)
        t = Transport(http_proxy=proxy.url, https_proxy=proxy.url, all_proxy=proxy.url)
        self.assertEvidence(t.one("POST", s.url, body="1"), phase="done")
        t.close()
        self.assertEqual(proxy.connections, 0)

    def test_named_proxy(self):
        proxy = self.server(always)
        t = Transport(no_proxy="*")
        e = t.one("POST", "http://provider.invalid/v1", body="1", proxy=proxy.url)
        t.close()
        self.assertEvidence(e, phase="done", status=200)
        self.assertTrue(proxy.requests[0][1].startswith("POST http://provider.invalid/v1 "))
        self.assertEqual(e["bytes_sent"], proxy.raw)

    def test_tunnel(self):
        def handle(c):
            c.head()
            c.buffer = b""
            far = socket.create_connection(("127.0.0.1", s.port))
            c.send(b"HTTP/1.1 200 Connection established\r\nVia: proxy\r\n\r\n")
            while True:
                for wire in select.select([c.wire, far], [], [])[0]:
                    data = wire.recv(65536)
                    if not data:
                        return
                    (far if wire is c.wire else c.wire).sendall(data)
        with tempfile.TemporaryDirectory() as directory:
            s = self.server(always, tls=make_certificates(directory))
            proxy = self.server(handle)
            for n in (1, 2):
                e = self.transport.one("POST", s.url, body="1", proxy=proxy.url, ca=f"{directory}/ca.pem",
                                       header=["Authorization: Bearer secret"])
                self.assertEvidence(e, sent=1, phase="done", bytes_sent=s.raw // n, peer=f"127.0.0.1:{proxy.port}",
                                    headers="HTTP/1.1 200 OK\r\nContent-Length: 14\r\n")
            self.assertEqual((proxy.connections, s.connections), (1, 1))
            self.assertNotIn("secret", proxy.requests[0][1])

    def test_refused_tunnel(self):
        def handle(c):
            c.head()
            c.answer(b"no", "403 Forbidden")
        proxy = self.server(handle)
        e = self.transport.one("POST", "https://provider.invalid/v1", body="1", proxy=proxy.url,
                               header=["Authorization: Bearer secret"])
        self.assertNotSent(e, "connect")
        self.assertNotIn("secret", proxy.requests[0][1])


class Load(Case):
    @unittest.skipUnless(shutil.which("nginx"), "no nginx")
    def test_speed(self):
        with tempfile.TemporaryDirectory() as directory, socket.create_server(("127.0.0.1", 0)) as free:
            os.chmod(directory, 0o755)
            port = free.getsockname()[1]
            free.close()
            with open(f"{directory}/nginx.conf", "w") as conf:
                conf.write(f"daemon off; worker_processes 1; pid {directory}/pid; error_log stderr crit;\n"
                           "events { worker_connections 1024; }\n"
                           "http { access_log off; keepalive_requests 1000000;\n"
                           f"server {{ listen 127.0.0.1:{port}; location / {{ return 200 '{{\"id\": \"re_1\"}}'; }} }} }}\n")
            nginx = subprocess.Popen(["nginx", "-c", f"{directory}/nginx.conf", "-p", directory])
            try:
                for _ in range(100):
                    if self.transport.one("GET", f"http://127.0.0.1:{port}/")["status"] == 200:
                        break
                    time.sleep(0.05)
                result = self.transport.bench(40_000, 64, "POST", f"http://127.0.0.1:{port}/", body='{"a": 1}')
            finally:
                nginx.terminate()
                nginx.wait()
        print(f"{result['per_second']} exchanges/s, 64 in flight, {result['turns'] / 40_000:.2f} turns each")
        self.assertEqual(result["fine"], 40_000)


if __name__ == "__main__":
    unittest.main()
