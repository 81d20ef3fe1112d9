"""What goes back, byte for byte? An answer and the ways to spoil it on the wire."""
from __future__ import annotations

import base64
import gzip
import json
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from wire import CHUNK, Connection, render_head

Do = dict[str, Any]
MIB = 1 << 20


@dataclass
class Answer:
    status: int
    body: bytes
    headers: list[tuple[str, bytes]] = field(default_factory=list)
    reason: bytes | None = None

    @property
    def bodiless(self) -> bool:
        return self.status in (204, 304) and not self.body


def json_answer(status: int, value: Any, *headers: tuple[str, bytes]) -> Answer:
    return Answer(status, json.dumps(value).encode(), [("Content-Type", b"application/json"), *headers])


def scripted(spec: Do, usual: Answer, facts: dict[bytes, bytes]) -> Answer:
    """The answer a test wrote; %ID%, %MARKER% and %BODY% stand for what the usual answer has."""
    body = _filled(_body(spec, usual), facts | {b"%BODY%": usual.body})
    headers = [(name, _filled(value, facts)) for name, value in _headers(spec)]
    if spec.get("gzip"):
        body = gzip.compress(body)
        headers.append(("Content-Encoding", b"gzip"))
    return Answer(int(spec.get("status", usual.status)), body, headers, _bytes(spec, "reason"))


def _bytes(spec: Do, name: str) -> bytes | None:
    if f"{name}_base64" in spec:
        return base64.b64decode(spec[f"{name}_base64"])
    return spec[name].encode() if name in spec else None


def _body(spec: Do, usual: Answer) -> bytes:
    if "json" in spec:
        return json.dumps(spec["json"]).encode()
    if "patch" in spec:
        return json.dumps(json.loads(usual.body) | spec["patch"]).encode()
    body = _bytes(spec, "body")
    if body is not None:
        return body
    return usual.body if 200 <= spec.get("status", 200) < 300 else b""


def _headers(spec: Do) -> list[tuple[str, bytes]]:
    """{name: text} or [[name, text or {"base64": ...}], ...]; order and repetition are the test's."""
    given = spec.get("headers", {})
    pairs = list(given.items()) if isinstance(given, dict) else [tuple(p) for p in given]
    headers = [(n, base64.b64decode(v["base64"]) if isinstance(v, dict) else str(v).encode()) for n, v in pairs]
    if not any(name.lower() == "content-type" for name, _ in headers):
        headers.insert(0, ("Content-Type", b"application/json"))
    return headers


def _filled(text: bytes, facts: dict[bytes, bytes]) -> bytes:
    for name, value in facts.items():
        text = text.replace(name, value)
    return text


# -- on the wire ---------------------------------------------------------------------------
def transmit(connection: Connection, answer: Answer, do: Do) -> int:
    """Send the answer as `do` says; returns the bytes handed to the socket."""
    sent = 0
    for piece in _pieces(answer, do):
        connection.send(piece)
        sent += len(piece)
    return sent


def _pieces(answer: Answer, do: Do) -> Iterator[bytes]:
    if "raw_base64" in do:
        yield base64.b64decode(do["raw_base64"])
        return
    for status in do.get("interim", []):
        yield render_head(int(status), [])
    if "gzip_bomb" in do:
        answer = Answer(answer.status, _bomb(int(do["gzip_bomb"])), answer.headers + [("Content-Encoding", b"gzip")])
    if "endless" in do:
        yield from _endless(answer, int(do["endless"]))
    elif do.get("chunked"):
        yield _head(answer, do, [("Transfer-Encoding", b"chunked")])
        yield b"%x\r\n%s\r\n0\r\n\r\n" % (len(answer.body), answer.body) if answer.body else b"0\r\n\r\n"
    else:
        yield from _measured(answer, do)


def _measured(answer: Answer, do: Do) -> Iterator[bytes]:
    """Content-Length first, then as much of the body as the test grants."""
    length = int(do.get("content_length", len(answer.body)))
    framing = [] if answer.bodiless else [("Content-Length", b"%d" % length)]
    head, body = _head(answer, do, framing), answer.body[:do.get("truncate")]
    if "split" not in do:
        yield head + body
        return
    yield head
    for start in range(0, len(body), int(do["split"]["size"])):
        time.sleep(float(do["split"].get("pause", 0)))
        yield body[start:start + int(do["split"]["size"])]


def _head(answer: Answer, do: Do, framing: list[tuple[str, bytes]]) -> bytes:
    extra = [(f"X-Filler-{i}", b"x" * 1000) for i in range(int(do.get("header_lines", 0)))]
    if "huge_header" in do:
        extra.append(("X-Huge", b"x" * int(do["huge_header"])))
    if do.get("announce_close"):
        extra.append(("Connection", b"close"))
    return render_head(answer.status, answer.headers + extra + framing, answer.reason)


def _endless(answer: Answer, mib: int) -> Iterator[bytes]:
    """A chunked body without an end; `mib` bounds it for the case that nobody hangs up."""
    yield _head(answer, {}, [("Transfer-Encoding", b"chunked")])
    chunk = b"%x\r\n%s\r\n" % (CHUNK, b" " * CHUNK)
    for _ in range(mib * MIB // CHUNK):
        yield chunk


def _bomb(mib: int) -> bytes:
    packer, zeros = zlib.compressobj(9, zlib.DEFLATED, 31), bytes(MIB)
    return b"".join(packer.compress(zeros) for _ in range(mib)) + packer.flush()


def finish(connection: Connection, end: str) -> None:
    """How the exchange leaves the connection."""
    if end == "reset":
        connection.reset()
    elif end == "hang":
        connection.wait_gone()
        connection.close()
    elif end == "close":
        connection.close()


