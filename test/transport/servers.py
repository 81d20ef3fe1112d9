"""Servers that misbehave, each connection handled by one function."""

import select
import socket
import ssl
import struct
import subprocess
import threading


class Server:
    """Calls handle(connection) in a thread for every connection; keeps what came."""

    def __init__(self, handle, tls=None, host="127.0.0.1"):
        self.handle = handle
        self.tls = tls
        self.requests = []  # (connection number, head, body)
        self.connections = 0
        self.raw = 0  # bytes of whole requests
        self.errors = []
        self.socket = socket.create_server((host, 0), backlog=256)
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self):
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    def _accept(self):
        while True:
            try:
                plain, _ = self.socket.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(plain, self.connections), daemon=True).start()

    def _serve(self, plain, number):
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            wire = self.tls.wrap_socket(plain, server_side=True) if self.tls else plain
            self.handle(Connection(self, wire, number))
            wire.close()
        except (OSError, EOFError) as error:
            self.errors.append(error)
            plain.close()

    def close(self):
        self.socket.close()


class Connection:
    def __init__(self, server, wire, number):
        self.server = server
        self.wire = wire
        self.number = number
        self.buffer = b""

    def _more(self):
        data = self.wire.recv(1 << 20)
        if not data:
            raise EOFError
        self.buffer += data

    def request(self):
        """One whole request, as it came."""
        while b"\r\n\r\n" not in self.buffer:
            self._more()
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        length = 0
        for line in head.split(b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        while len(self.buffer) < length:
            self._more()
        body, self.buffer = self.buffer[:length], self.buffer[length:]
        self.server.raw += len(head) + 4 + length
        self.server.requests.append((self.number, head.decode(), body))
        return head.decode(), body

    def head(self):
        """The head alone; the body stays where it is."""
        while b"\r\n\r\n" not in self.buffer:
            self._more()
        head = self.buffer.split(b"\r\n\r\n", 1)[0].decode()
        self.server.requests.append((self.number, head, b""))
        return head

    def send(self, data):
        self.wire.sendall(data)

    def answer(self, body=b"{}", status="200 OK", headers=()):
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
        self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    def reset(self):
        """RST instead of FIN."""
        self.wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.wire.close()

    def wait_for_close(self, seconds=10):
        select.select([self.wire], [], [], seconds)


def make_certificates(directory):
    """A test CA and a certificate for 127.0.0.1 and localhost."""

    def openssl(*args):
        subprocess.run(["openssl", *args], cwd=directory, check=True, capture_output=True)

    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem",
            "-subj", "/CN=op_ledger test CA", "-days", "2")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", "server.key", "-out", "server.csr",
            "-subj", "/CN=localhost")
    with open(f"{directory}/names", "w") as names:
        names.write("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
            "-CAcreateserial", "-out", "server.pem", "-days", "2", "-extfile", "names")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{directory}/server.pem", f"{directory}/server.key")
    return context
