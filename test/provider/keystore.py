"""What does this provider remember of an idempotency key?

stores: all      first status and body, errors too (Stripe v1)
        success  2xx only; an error is executed again
        state    the object as it is now, not the first answer (PayPal); errors as they were
        nothing  the key is ignored
"""
from __future__ import annotations

import threading
import time
from dataclasses import dataclass

FRESH, REPLAY, IN_PROGRESS, MISMATCH, UNKEYED = "fresh", "replay", "in_progress", "mismatch", "unkeyed"
STORES = {"all", "success", "state", "nothing"}


@dataclass
class Saved:
    fingerprint: bytes
    since: float
    status: int | None = None
    body: bytes = b""
    object_id: str | None = None


class KeyStore:
    def __init__(self) -> None:
        self.mutex = threading.Lock()
        self.clear()

    def clear(self) -> None:
        with self.mutex:
            self.saved: dict[str, Saved] = {}
        self.stores, self.locks, self.ttl, self.compares = "all", True, float("inf"), True

    def begin(self, key: str | None, fingerprint: bytes) -> tuple[str, Saved | None]:
        """Ask before the work; FRESH takes the key."""
        if key is None or self.stores == "nothing":
            return UNKEYED, None
        with self.mutex:
            saved = self._remembered(key)
            if saved is None:
                self.saved[key] = Saved(fingerprint, time.monotonic())
                return FRESH, None
            if self.compares and saved.fingerprint != fingerprint:
                return MISMATCH, saved
            if saved.status is None:
                return (IN_PROGRESS, saved) if self.locks else (FRESH, None)
            return REPLAY, saved

    def _remembered(self, key: str) -> Saved | None:
        saved = self.saved.get(key)
        if saved and time.monotonic() - saved.since > self.ttl:
            del self.saved[key]
            return None
        return saved

    def finish(self, key: str | None, status: int, body: bytes, object_id: str | None) -> None:
        """Keep the answer, or forget the key where this provider keeps no such answer."""
        with self.mutex:
            saved = self.saved.get(key or "")
            if saved is None:
                return
            if self.stores == "success" and not 200 <= status < 300:
                del self.saved[key or ""]
                return
            saved.status, saved.body, saved.object_id = status, body, object_id

    def forget(self, key: str | None) -> None:
        with self.mutex:
            if key is None:
                self.saved.clear()
            else:
                self.saved.pop(key, None)
