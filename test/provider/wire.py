"""HTTP/1.1 on a raw socket: how are messages read, and how are bytes (or their absence) sent?

No library server can do what a hostile provider does: reset after the request, half an answer,
two answers for one request. So the framing is done here, for server and proxy alike.
"""
from __future__ import annotations

import socket
import ssl
import struct
from dataclasses import dataclass, field

MAX_HEAD = 1 << 20
MAX_BODY = 64 << 20
CHUNK = 65536


class Gone(Exception):
    """The other side closed or reset the connection."""


class Malformed(Exception):
    """What came is no HTTP message."""


@dataclass
class Head:
    """Start line and headers of one message, with the bytes they came in."""

    raw: bytes
    start: list[str]
    headers: list[tuple[str, str]]

    def get(self, name: str) -> str | None:
        wanted = name.lower()
        return next((v for n, v in self.headers if n.lower() == wanted), None)

    @property
    def chunked(self) -> bool:
        return "chunked" in (self.get("Transfer-Encoding") or "").lower()

    @property
    def length(self) -> int:
        text = self.get("Content-Length") or "0"
        if not text.isdigit() or int(text) > MAX_BODY:
            raise Malformed(f"Content-Length {text!r}")
        return int(text)

    @property
    def closes(self) -> bool:
        return "close" in (self.get("Connection") or "").lower()


@dataclass
class Body:
    """A message's body: `raw` as it stood on the wire, `data` without chunk framing."""

    raw: bytearray = field(default_factory=bytearray)
    data: bytearray = field(default_factory=bytearray)


def parse_head(raw: bytes) -> Head:
    # latin-1 keeps every byte, so a hostile header is logged as it came.
    lines = raw.decode("latin-1").split("\r\n")
    start = lines[0].split(" ", 2)
    if len(start) < 2:
        raise Malformed(f"start line {lines[0]!r}")
    headers = []
    for line in filter(None, lines[1:]):
        name, colon, value = line.partition(":")
        if not colon:
            raise Malformed(f"header line {line!r}")
        headers.append((name, value.strip()))
    return Head(raw, start, headers)


class Connection:
    """One TCP (or TLS) connection with its receive buffer."""

    def __init__(self, sock: socket.socket):
        self.sock = sock
        self.buffer = bytearray()
        self.open = True

    # -- reading --------------------------------------------------------------------------
    def fill(self) -> None:
        try:
            data = self.sock.recv(CHUNK)
        except (OSError, ValueError) as error:
            raise Gone(str(error)) from error
        if not data:
            raise Gone("end of stream")
        self.buffer += data

    def take(self, n: int) -> bytes:
        while len(self.buffer) < n:
            self.fill()
        data = bytes(self.buffer[:n])
        del self.buffer[:n]
        return data

    def take_until(self, mark: bytes, limit: int) -> bytes:
        while (end := self.buffer.find(mark)) < 0:
            if len(self.buffer) > limit:
                raise Malformed(f"no {mark!r} within {limit} bytes")
            self.fill()
        return self.take(end + len(mark))

    def read_head(self) -> Head | None:
        """The next message's head; None when the peer closed between two messages."""
        try:
            raw = self.take_until(b"\r\n\r\n", MAX_HEAD)
        except Gone:
            if self.buffer:
                raise
            return None
        return parse_head(raw)

    def read_body(self, head: Head, body: Body) -> None:
        """Read into `body`, which keeps what came even when the peer leaves in the middle."""
        if head.chunked:
            self._read_chunks(body)
        else:
            self.read_bytes(body, head.length)

    def read_bytes(self, body: Body, length: int) -> None:
        while length > 0:
            if not self.buffer:
                self.fill()
            piece = self.take(min(length, len(self.buffer)))
            body.raw += piece
            body.data += piece
            length -= len(piece)

    def _read_chunks(self, body: Body) -> None:
        size = -1
        while size != 0:
            line = self.take_until(b"\r\n", 1024)
            size = int(line.split(b";")[0], 16)
            data = self.take(size + 2)
            body.raw += line + data
            body.data += data[:-2]
            if len(body.data) > MAX_BODY:
                raise Malformed("chunked body too large")

    def read_to_end(self, body: Body) -> None:
        """A body that only the end of the stream delimits."""
        try:
            while len(body.data) < MAX_BODY:
                body.raw += self.buffer
                body.data += self.buffer
                self.buffer.clear()
                self.fill()
        except Gone:
            pass

    def wait_gone(self) -> None:
        """Say nothing until the peer leaves or somebody shuts this connection down."""
        try:
            while True:
                self.fill()
                self.buffer.clear()
        except Gone:
            pass

    # -- sending --------------------------------------------------------------------------
    def send(self, data: bytes) -> None:
        try:
            self.sock.sendall(data)
        except (OSError, ValueError) as error:
            raise Gone(str(error)) from error

    # -- ending ---------------------------------------------------------------------------
    def close(self) -> None:
        if self.open:
            self.open = False
            self.sock.close()

    def reset(self) -> None:
        """Close with RST: nothing that waits in the send buffer is delivered."""
        try:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError:
            pass
        self.close()

    def interrupt(self) -> None:
        """Called from another thread: whoever reads or writes here gets Gone."""
        try:
            socket.socket.shutdown(self.sock, socket.SHUT_RDWR)
        except OSError:
            pass


# -- answers ------------------------------------------------------------------------------
REASONS = {
    100: "Continue", 103: "Early Hints", 200: "OK", 201: "Created", 202: "Accepted", 204: "No Content",
    301: "Moved Permanently", 302: "Found", 303: "See Other", 307: "Temporary Redirect", 308: "Permanent Redirect",
    400: "Bad Request", 401: "Unauthorized", 402: "Payment Required", 403: "Forbidden", 404: "Not Found",
    405: "Method Not Allowed", 408: "Request Timeout", 409: "Conflict", 410: "Gone", 417: "Expectation Failed",
    422: "Unprocessable Entity", 423: "Locked", 425: "Too Early", 429: "Too Many Requests",
    500: "Internal Server Error", 502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout",
}


def render_head(status: int, headers: list[tuple[str, bytes]], reason: bytes | None = None) -> bytes:
    text = reason if reason is not None else REASONS.get(status, "Whatever").encode()
    lines = [b"HTTP/1.1 %d %s" % (status, text)]
    lines += [name.encode("latin-1") + b": " + value for name, value in headers]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def listen(host: str, port: int = 0, backlog: int = 1024) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((host, port))
    sock.listen(backlog)
    return sock


def tls_context(cert: str, key: str | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    context.set_alpn_protocols(["http/1.1"])
    return context
