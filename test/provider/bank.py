"""What does the provider have? Objects made by effects, their lookup, and how often each operation took effect."""
from __future__ import annotations

import json
import threading
import time
from typing import Any
from urllib.parse import parse_qsl

Json = dict[str, Any]
NEVER = float("inf")
DEAD = {"failed", "canceled"}


# -- reading a request ----------------------------------------------------------------------
def parse_params(content_type: str, body: bytes) -> Json:
    """A form with Stripe's brackets, or JSON; whatever is neither has no parameters."""
    text = body.decode("utf-8", "replace")
    if "json" in content_type or text.lstrip().startswith("{"):
        try:
            value = json.loads(text)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}
    return parse_form(text)


def parse_form(text: str) -> Json:
    params: Json = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        place, keys = params, name.replace("]", "").split("[")
        for key in keys[:-1]:
            inner = place.get(key)
            place[key] = place = inner if isinstance(inner, dict) else {}
        place[keys[-1]] = value
    return params


def find_marker(params: Json) -> str | None:
    """Our own mark on the object, wherever a provider has a place for it."""
    metadata = params.get("metadata")
    if isinstance(metadata, dict) and "op_id" in metadata:
        return str(metadata["op_id"])
    for name in ("op_id", "marker", "reference", "custom_id"):
        if name in params:
            return str(params[name])
    return None


# -- objects --------------------------------------------------------------------------------
class Thing:
    """One object: its fields now, when a lookup may see it, what it turns into."""

    def __init__(self, kind: str, data: Json, marker: str | None, key: str | None):
        self.kind, self.data, self.marker, self.key = kind, data, marker, key
        self.account: str | None = None
        self.visible_at = 0.0
        self.turns_at, self.turns_to = NEVER, {}

    def view(self) -> Json:
        if time.monotonic() >= self.turns_at:
            self.data.update(self.turns_to)
            self.turns_at = NEVER
        return self.data

    @property
    def visible(self) -> bool:
        return time.monotonic() >= self.visible_at

    @property
    def living(self) -> bool:
        return self.view().get("status") not in DEAD

    @property
    def owner(self) -> str:
        """Whose effect this is: the marker, or what else tells it apart."""
        return self.marker or f"key:{self.key}"


def later(seconds: Any) -> float:
    return NEVER if seconds == "forever" else time.monotonic() + float(seconds)


def refund_fields(params: Json, rest: int | None) -> Json:
    amount = str(params.get("amount", rest or 0))
    return {"object": "refund", "amount": int(amount) if amount.isdigit() else amount, "currency": "usd",
            "charge": params.get("charge"), "payment_intent": params.get("payment_intent"),
            "created": int(time.time()), "metadata": params.get("metadata", {}), "status": "succeeded"}


class Bank:
    def __init__(self) -> None:
        self.mutex = threading.RLock()
        self.made = 0
        self.clear()

    def clear(self) -> None:
        # `made` goes on, so that an id of an earlier test never comes again.
        with self.mutex:
            self.things: list[Thing] = []
            self.balances: dict[str, int] = {}
            self.page = 100

    # -- effects --------------------------------------------------------------------------
    def create(self, kind: str, params: Json, key: str | None, do: Json) -> Thing:
        """The effect itself: money moves here and nowhere else."""
        with self.mutex:
            self.made += 1
            prefix = "re" if kind == "refunds" else "thing"
            rest = self.left(params.get("payment_intent") or params.get("charge") or "")
            data = refund_fields(params, rest) if kind == "refunds" else dict(params)
            data = {"id": f"{prefix}_{self.made:08d}", "status": "succeeded"} | data | do.get("object", {})
            thing = Thing(kind, data, find_marker(params), key)
            if "hide" in do:
                thing.visible_at = later(do["hide"])
            if becomes := do.get("becomes"):
                thing.turns_at, thing.turns_to = later(becomes["after"]), becomes["set"]
            self.things.append(thing)
            return thing

    def refusal(self, kind: str, params: Json) -> tuple[int, Json] | None:
        """Why a refund cannot be made: (status, error)."""
        if kind != "refunds":
            return None
        source = params.get("payment_intent") or params.get("charge")
        if not source:
            return 400, {"type": "invalid_request_error", "code": "parameter_missing", "param": "payment_intent"}
        with self.mutex:
            left = self.left(source)
        if left == 0:
            return 400, {"type": "invalid_request_error", "code": "charge_already_refunded",
                         "message": "Charge has already been refunded."}
        amount = str(params.get("amount", left))
        if left is not None and amount.isdigit() and int(amount) > left:
            return 400, {"type": "invalid_request_error", "param": "amount",
                         "message": "Refund amount is greater than unrefunded amount on charge"}
        return None

    def left(self, source: str) -> int | None:
        """What can still be refunded; None where no balance was set."""
        if source not in self.balances:
            return None
        spent = sum(t.data["amount"] for t in self.things
                    if t.kind == "refunds" and t.living and source in (t.data["payment_intent"], t.data["charge"]))
        return max(self.balances[source] - spent, 0)

    def effects(self) -> Json:
        with self.mutex:
            by_op: dict[str, int] = {}
            living: dict[str, int] = {}
            for thing in self.things:
                by_op[thing.owner] = by_op.get(thing.owner, 0) + 1
                living[thing.owner] = living.get(thing.owner, 0) + thing.living
            return {"total": len(self.things), "by_op": by_op, "living": living, "objects": [t.view() for t in self.things]}

    # -- lookups --------------------------------------------------------------------------
    def get(self, kind: str, thing_id: str, account: str | None = None) -> Json | None:
        with self.mutex:
            return next((t.view() for t in self.things
                         if t.kind == kind and t.visible and t.data["id"] == thing_id and account in (None, t.account)), None)

    def current(self, thing_id: str | None) -> Json | None:
        """The object whatever its visibility: what a key store of kind `state` replays."""
        with self.mutex:
            return next((t.view() for t in self.things if t.data["id"] == thing_id), None)

    def page_of(self, kind: str, query: Json, account: str | None = None) -> tuple[list[Json], bool]:
        """Newest first, filtered by every other query parameter, one page of it; account None: of all."""
        query = dict(query)
        limit = min(int(query.pop("limit", 10)), self.page)
        after = query.pop("starting_after", None)
        with self.mutex:
            rows = [t.view() for t in reversed(self.things)
                    if t.kind == kind and t.visible and account in (None, t.account) and _fits(t, query)]
        if after is not None:
            ids = [row["id"] for row in rows]
            rows = rows[ids.index(after) + 1:] if after in ids else []
        return rows[:limit], len(rows) > limit

    # -- what a test orders ----------------------------------------------------------------
    def change(self, selector: Json, fields: Json, hide: Any = None) -> int:
        """Set fields or visibility of the objects of one op or id; returns how many."""
        with self.mutex:
            chosen = [t for t in self.things if selector.get("op") == t.marker or selector.get("id") == t.data["id"]]
            for thing in chosen:
                thing.view().update(fields)
                if hide is not None:
                    thing.visible_at = later(hide)
            return len(chosen)


def _fits(thing: Thing, query: Json) -> bool:
    data, metadata = thing.data, thing.data.get("metadata") or {}
    ignored = {"created", "expand"}
    return all(name in ignored or str(data.get(name, metadata.get(name))) == str(value) for name, value in query.items())
