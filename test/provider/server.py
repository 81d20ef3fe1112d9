"""What provider and proxy share: listeners, connections, gates, and the control interface under /_control."""
from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from answer import json_answer, transmit
from journal import Journal
from script import Script, ScriptError
from wire import Body, Connection, Gone, Head, Malformed, listen

CONTROL = "/_control/"
SETTLE_S = 5
Json = dict[str, Any]


class Gates:
    """Named places where an exchange waits until the test lets it go on."""

    LONGEST_S = 300.0

    def __init__(self) -> None:
        self.mutex = threading.Lock()
        self.gates: dict[str, threading.Event] = {}
        self.over = threading.Event()

    def wait(self, until: float | str) -> None:
        """`until` is a number of seconds or a gate's name."""
        if isinstance(until, str):
            self.gate(until).wait(self.LONGEST_S)
        else:
            self.over.wait(min(float(until), self.LONGEST_S))

    def gate(self, name: str) -> threading.Event:
        with self.mutex:
            return self.gates.setdefault(name, threading.Event())

    def release_all(self) -> None:
        """Let everybody go and start anew."""
        with self.mutex:
            waiting, self.gates = list(self.gates.values()), {}
            over, self.over = self.over, threading.Event()
        for event in [*waiting, over]:
            event.set()


class Server:
    """Subclasses say what an exchange is and add their own control verbs."""

    def __init__(self, host: str = "127.0.0.1"):
        self.host = host
        self.journal, self.script, self.gates = Journal(), Script(), Gates()
        self.mutex = threading.Lock()
        self.connections: set[Connection] = set()
        self.ports: dict[str, int] = {}
        self.verbs: dict[tuple[str, str], Callable[[Json], Any]] = {
            ("GET", "log"): lambda q: self.journal.select(q),
            ("GET", "connections"): lambda q: self.journal.connections,
            ("GET", "ports"): lambda q: self.ports,
            ("GET", "script"): lambda q: self.script.unused(),
            ("GET", "wait"): self.wait,
            ("POST", "script"): self.add_rules,
            ("POST", "clear_script"): lambda q: self.script.clear(),
            ("POST", "release"): self.release,
            ("POST", "hang_up"): lambda q: self.hang_up(),
            ("POST", "reset"): lambda q: self.reset(),
        }

    # -- to be filled in ------------------------------------------------------------------
    def exchange(self, connection: Connection, seen: Json, head: Head) -> bool:
        """Play one request; True keeps the connection."""
        raise NotImplementedError

    def counters(self, where: Json) -> dict[str, int]:
        """What `wait` can wait for, counted over the requests that `where` selects."""
        count = self.journal.count
        return {"requests": count(where, lambda r: r["received"]),
                "finished": count(where, lambda r: r["finished_at"] is not None),
                "waiting": count(where, lambda r: bool(r.get("waiting"))),
                "runs": count(where, lambda r: "run" in r),
                "connections": len(self.journal.connections)}

    # -- control --------------------------------------------------------------------------
    def add_rules(self, body: Any) -> Json:
        self.script.add(body if isinstance(body, list) else [body])
        return {}

    def release(self, body: Json) -> Json:
        self.gates.gate(body["gate"]).set()
        return {}

    def hang_up(self) -> Json:
        """Every connection now open is interrupted: kept ones are dead from the client's view."""
        with self.mutex:
            victims = [c for c in self.connections if c.open]
        for connection in victims:
            connection.interrupt()
        return {"closed": len(victims)}

    def reset(self) -> Json:
        """As new; exchanges under way end first, so that no late effect falls into the next test."""
        self.script.clear()
        self.gates.release_all()
        self.hang_up()
        self.journal.wait(lambda: all(r["finished_at"] for r in self.journal.requests), SETTLE_S)
        self.journal.clear()
        return {}

    def wait(self, query: Json) -> Json:
        """?requests=3&timeout=20&kind=send: until each counter has reached its number."""
        query = dict(query)
        timeout = float(query.pop("timeout", 60))
        wanted = {n: int(query.pop(n)) for n in self.counters({}) if n in query}
        ok = self.journal.wait(lambda: all(self.counters(query)[n] >= v for n, v in wanted.items()), timeout)
        return {"ok": ok, **self.counters(query)}

    def _control(self, connection: Connection, head: Head) -> None:
        body = Body()
        connection.read_body(head, body)
        url = urlsplit(head.start[1])
        verb = self.verbs.get((head.start[0], url.path.removeprefix(CONTROL)))
        try:
            argument = json.loads(bytes(body.data)) if body.data else dict(parse_qsl(url.query))
            answer = json_answer(200, verb(argument)) if verb else json_answer(404, {"error": "no such control"})
        except (ScriptError, ValueError, KeyError, TypeError) as error:
            answer = json_answer(400, {"error": f"{type(error).__name__}: {error}"})
        transmit(connection, answer, {"announce_close": True})

    # -- connections ----------------------------------------------------------------------
    def listen(self, name: str, handler: Callable[[socket.socket], None], port: int = 0) -> None:
        sock = listen(self.host, port)
        self.ports[name] = sock.getsockname()[1]
        self.accept(sock, handler)

    def accept(self, sock: socket.socket, handler: Callable[[socket.socket], None]) -> None:
        """A thread that accepts, and one more per connection."""
        def loop() -> None:
            while True:
                client, _ = sock.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=handler, args=(client,), daemon=True).start()
        threading.Thread(target=loop, daemon=True).start()

    def serve(self, client: socket.socket) -> None:
        """Requests of one connection, one after another; control requests leave no trace."""
        connection = Connection(client)
        try:
            self._requests(connection, "%s:%d" % client.getpeername()[:2])
        except (Gone, Malformed, OSError):
            pass
        finally:
            connection.close()
            with self.mutex:
                self.connections.discard(connection)

    def _requests(self, connection: Connection, peer: str) -> None:
        seen: Json = {}
        while (head := connection.read_head()) is not None:
            if head.start[1].startswith(CONTROL):
                self._control(connection, head)
                return
            if not seen:
                seen = self.journal.connected(peer)
                with self.mutex:
                    self.connections.add(connection)
            if not self.exchange(connection, seen, head):
                return

    # -- life -----------------------------------------------------------------------------
    def run(self) -> None:
        """Announce the ports and live as long as the process that started us, whatever ends it."""
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
        parent = os.getppid()
        print("listening", *(self.ports[n] for n in ("http", "tls") if n in self.ports), flush=True)
        while os.getppid() == parent:
            time.sleep(0.5)


def serve_tls(server: Server, context: ssl.SSLContext, client: socket.socket) -> None:
    """Handshake in the connection's own thread: a client that hangs holds up nobody."""
    try:
        wrapped = context.wrap_socket(client, server_side=True)
    except (OSError, ValueError):
        client.close()
        return
    server.serve(wrapped)
