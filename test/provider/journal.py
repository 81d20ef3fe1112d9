"""What was seen so far, and how does a test wait for more without sleeping?"""
from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

Entry = dict[str, Any]
LOOK_EVERY_S = 0.01


class Journal:
    """Every request and connection, in order of arrival; one condition for all who wait."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.requests: list[Entry] = []
        self.connections: list[Entry] = []

    def clear(self) -> None:
        with self.changed:
            self.requests.clear()
            self.connections.clear()
            self.changed.notify_all()

    def connected(self, peer: str) -> Entry:
        entry: Entry = {"peer": peer, "at": time.time(), "requests": 0}
        with self.changed:
            entry["id"] = len(self.connections) + 1
            self.connections.append(entry)
            self.changed.notify_all()
        return entry

    def arrived(self, connection: Entry, facts: Entry) -> Entry:
        with self.changed:
            connection["requests"] += 1
            entry = {"n": len(self.requests) + 1, "connection": connection["id"], "at": time.time(),
                     "received": False, "complete": False, "finished_at": None, **facts}
            self.requests.append(entry)
        return entry

    def note(self, entry: Entry, **facts: Any) -> None:
        with self.changed:
            entry.update(facts)
            self.changed.notify_all()

    def touch(self) -> None:
        """Something outside the journal (an effect, a gate) changed: look again."""
        with self.changed:
            self.changed.notify_all()

    def select(self, wanted: dict[str, str]) -> list[Entry]:
        """Requests whose entry has these values; `path` is compared without its query."""
        with self.changed:
            return [dict(e) for e in self.requests if all(_has(e, k, v) for k, v in wanted.items())]

    def count(self, wanted: dict[str, str], what: Callable[[Entry], bool]) -> int:
        with self.changed:
            return sum(what(e) for e in self.requests if all(_has(e, k, v) for k, v in wanted.items()))

    def wait(self, holds: Callable[[], bool], timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        while True:
            with self.changed:
                if holds():
                    return True
                if not self.changed.wait(max(deadline - time.monotonic(), 0)):
                    return holds()
            # Under load many changes come at once: one look for all of them.
            time.sleep(LOOK_EVERY_S)


def _has(entry: Entry, name: str, value: str) -> bool:
    return str(entry.get(name)) == value
