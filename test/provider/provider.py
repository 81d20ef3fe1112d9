#!/usr/bin/env python3
"""The provider double: a payment provider that does, on command, everything that ever broke a client.

Prints `listening PORT [TLSPORT]` when ready. What it can be told is in README.md beside this file.
"""
from __future__ import annotations

import argparse
import socket
from typing import Any

import keystore
from bank import Bank
from exchange import Exchange
from server import Server, serve_tls
from wire import Connection, Head, listen, tls_context

Json = dict[str, Any]


class Provider(Server):
    def __init__(self) -> None:
        super().__init__()
        self.bank, self.keys = Bank(), keystore.KeyStore()
        self._defaults()
        self.verbs |= {
            ("GET", "effects"): lambda q: self.bank.effects(),
            ("GET", "config"): lambda q: self._config(),
            ("POST", "config"): self.configure,
            ("POST", "object"): self.change_object,
            ("POST", "forget_keys"): self.forget_keys,
            ("POST", "open_full"): lambda q: self.open_full(),
        }

    def _defaults(self) -> None:
        self.key_header, self.replay_header, self.mismatch_status = "Idempotency-Key", True, 400
        self.authorization: str | None = None
        self.accounts = False

    def exchange(self, connection: Connection, seen: Json, head: Head) -> bool:
        played = Exchange(self, connection, seen, head)
        played.play()
        return played.keep

    def counters(self, where: Json) -> dict[str, int]:
        effects = self.bank.effects()
        return super().counters(where) | {"effects": effects["by_op"].get(where["op"], 0) if "op" in where else effects["total"]}

    # -- control --------------------------------------------------------------------------
    def configure(self, body: Json) -> Json:
        """Set what is named, leave the rest."""
        setters = {
            "stores": self._set_stores,
            "lock": lambda v: setattr(self.keys, "locks", bool(v)),
            "ttl": lambda v: setattr(self.keys, "ttl", float(v)),
            "compare": lambda v: setattr(self.keys, "compares", bool(v)),
            "replay_header": lambda v: setattr(self, "replay_header", bool(v)),
            "mismatch_status": lambda v: setattr(self, "mismatch_status", int(v)),
            "key_header": lambda v: setattr(self, "key_header", str(v)),
            "authorization": lambda v: setattr(self, "authorization", v),
            "accounts": lambda v: setattr(self, "accounts", bool(v)),
            "balances": lambda v: setattr(self.bank, "balances", v),
            "page": lambda v: setattr(self.bank, "page", int(v)),
            "seed": lambda v: self.script.seed(int(v)),
        }
        if unknown := body.keys() - setters.keys():
            raise ValueError(f"unknown setting: {', '.join(sorted(unknown))}")
        for name, value in body.items():
            setters[name](value)
        return self._config()

    def _set_stores(self, value: str) -> None:
        if value not in keystore.STORES:
            raise ValueError(f"stores is one of {', '.join(sorted(keystore.STORES))}")
        self.keys.stores = value

    def _config(self) -> Json:
        ttl = None if self.keys.ttl == float("inf") else self.keys.ttl
        return {"stores": self.keys.stores, "lock": self.keys.locks, "ttl": ttl, "compare": self.keys.compares,
                "replay_header": self.replay_header, "mismatch_status": self.mismatch_status,
                "key_header": self.key_header, "authorization": self.authorization, "accounts": self.accounts,
                "balances": self.bank.balances, "page": self.bank.page}

    def change_object(self, body: Json) -> Json:
        """{"op" or "id": which, "set": {field: value}, "hide": seconds (0 shows it)}"""
        changed = self.bank.change(body, body.get("set", {}), body.get("hide"))
        if not changed:
            raise ValueError("no such object")
        return {"changed": changed}

    def forget_keys(self, body: Json) -> Json:
        self.keys.forget(body.get("key"))
        return {}

    def reset(self) -> Json:
        super().reset()
        self.keys.clear()
        self.bank.clear()
        self._defaults()
        return {}

    # -- ports on which nobody answers ------------------------------------------------------
    def open_dead_ends(self) -> None:
        """refused: bound, not listening. silent: accepts and says nothing. full: its backlog is full."""
        self.refused = socket.socket()
        self.refused.bind((self.host, 0))
        self.ports["refused"] = self.refused.getsockname()[1]
        self.listen("silent", lambda client: Connection(client).wait_gone())
        self._fill_backlog()

    def _fill_backlog(self) -> None:
        """One connection waits to be accepted and the queue has no second place: the next SYN is dropped."""
        self.full = listen(self.host, backlog=0)
        self.filler = socket.create_connection(self.full.getsockname())
        self.ports["full"] = self.full.getsockname()[1]

    def open_full(self) -> Json:
        """From now on the full port answers like any other."""
        self.filler.close()
        self.full.listen(1024)
        self.accept(self.full, self.serve)
        return {"port": self.ports["full"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--tls-port", type=int, default=0)
    parser.add_argument("--cert", help="certificate (PEM): serve TLS on a second port")
    parser.add_argument("--key", help="its private key")
    options = parser.parse_args()
    provider = Provider()
    provider.listen("http", provider.serve, options.port)
    if options.cert:
        context = tls_context(options.cert, options.key)
        provider.listen("tls", lambda client: serve_tls(provider, context, client), options.tls_port)
    provider.open_dead_ends()
    provider.run()


if __name__ == "__main__":
    main()
