#!/usr/bin/env python3
"""A proxy in front of somebody else's server: forwards everything, and loses the answers it is told to lose.

Prints `listening PORT`. A rule's `do` is one of: {} (forward), "drop" / "reset" (the request reaches the
server, its answer never comes back), "drop_before" / "reset_before" (the request does not reach it either),
and any of them may wait: delay_before, delay_after.
"""
from __future__ import annotations

import argparse
import base64
import socket
import time
from typing import Any

from answer import finish
from exchange import Request
from server import Server
from wire import Body, Connection, Gone, Head, Malformed

Json = dict[str, Any]
UPSTREAM_TIMEOUT_S = 60


class Upstream:
    """One request to the real server on a connection of its own."""

    def __init__(self, address: tuple[str, int]):
        self.connection = Connection(socket.create_connection(address, UPSTREAM_TIMEOUT_S))

    def ask(self, head: Head, body: Body) -> tuple[int, bytes]:
        self.connection.send(head.raw + body.raw)
        answer_head = self.connection.read_head()
        if answer_head is None:
            raise Gone("upstream closed without an answer")
        answer_body = Body()
        self._read_body(head, answer_head, answer_body)
        self.connection.close()
        return int(answer_head.start[1]), answer_head.raw + bytes(answer_body.raw)

    def _read_body(self, asked: Head, head: Head, body: Body) -> None:
        if asked.start[0] == "HEAD" or head.start[1] in ("204", "304"):
            return
        if head.chunked or head.get("Content-Length") is not None:
            self.connection.read_body(head, body)
        else:
            self.connection.read_to_end(body)


class Passage:
    """One request on its way through."""

    def __init__(self, proxy: Proxy, connection: Connection, seen: Json, head: Head):
        self.proxy, self.connection = proxy, connection
        self.request = Request(head, seen["id"], "Idempotency-Key")
        self.entry = proxy.journal.arrived(seen, self.request.facts())
        self.request.number = self.entry["n"]
        self.do: Json = {}
        self.keep = False

    def play(self) -> None:
        try:
            self._read()
            self._choose()
            self._pass()
        except (Gone, Malformed, OSError) as error:
            self._note(error=str(error))
        finally:
            self._note(finished_at=time.time())

    def _note(self, **facts: Any) -> None:
        self.proxy.journal.note(self.entry, **facts)

    def _read(self) -> None:
        self.connection.read_body(self.request.head, self.request.body)
        self.request.understand()
        self._note(received=True, complete=True, op=self.request.op,
                   body_base64=base64.b64encode(bytes(self.request.body.data)).decode())

    def _choose(self) -> None:
        rule = self.proxy.script.pick(self.request, at_head=False)
        if rule is not None:
            self.do = rule.do
            self._note(rule=rule.name or str(rule.do))

    def _pass(self) -> None:
        self._delay("delay_before")
        if not self.do.get("effect", True):
            finish(self.connection, self.do.get("then", "close"))
            return
        status, answer = Upstream(self.proxy.upstream).ask(self.request.head, self.request.body)
        self._note(status=status, forwarded=True)
        self._delay("delay_after")
        if self.do.get("answer") == "none":
            self._note(dropped=True)
        else:
            self.connection.send(answer)
        end = self.do.get("then", "keep")
        finish(self.connection, end)
        self.keep = end == "keep" and not self.request.head.closes

    def _delay(self, name: str) -> None:
        if name in self.do:
            self._note(waiting=name)
            self.proxy.gates.wait(self.do[name])
            self._note(waiting=None)


class Proxy(Server):
    def __init__(self, upstream: tuple[str, int]):
        super().__init__()
        self.upstream = upstream

    def exchange(self, connection: Connection, seen: Json, head: Head) -> bool:
        passage = Passage(self, connection, seen, head)
        passage.play()
        return passage.keep


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--upstream", required=True, help="HOST:PORT")
    options = parser.parse_args()
    host, _, port = options.upstream.rpartition(":")
    proxy = Proxy((host, int(port)))
    proxy.listen("http", proxy.serve, options.port)
    proxy.run()


if __name__ == "__main__":
    main()
