"""Which behaviour applies to which request?

A rule is {"match": {...}, "do": {...} or a preset's name, "times": 1 | n | "always"}. The first rule
that matches and is not used up decides. Unknown names are refused, so that a typo cannot make a test pass.
"""
from __future__ import annotations

import random
import re
import threading
from typing import Any

Do = dict[str, Any]

MATCH_FIELDS = {"method", "path", "kind", "op", "key", "contains", "header", "nth", "number", "connection", "probability"}
# These must be known before the body is read; such a rule cannot match on what stands in the body.
HEAD_FIELDS = {"stop_reading", "expect"}
BODY_MATCHES = {"op", "contains"}
DO_FIELDS = HEAD_FIELDS | {
    "delay_arrival", "delay_before", "delay_after", "delay_answer", "run", "run_after",
    "effect", "object", "hide", "becomes", "keyed", "stuck", "answer",
    "interim", "huge_header", "header_lines", "content_length", "truncate", "split", "chunked", "endless",
    "gzip_bomb", "raw_base64", "announce_close", "stray", "then",
}
ANSWER_FIELDS = {"status", "reason", "reason_base64", "headers", "body", "body_base64", "json", "patch", "gzip"}
ENDS = {"keep", "close", "reset", "hang"}


def error(status: int, kind: str = "api_error", **more: Any) -> Do:
    return {"status": status, "json": {"error": {"type": kind, **more}}}


PRESETS: dict[str, Do] = {
    "normal": {},
    "drop": {"answer": "none", "then": "close"},
    "reset": {"answer": "none", "then": "reset"},
    "hang": {"answer": "none", "then": "hang"},
    "drop_before": {"effect": False, "answer": "none", "then": "close"},
    "reset_before": {"effect": False, "answer": "none", "then": "reset"},
    "hang_before": {"effect": False, "answer": "none", "then": "hang"},
    "effect_then_500": {"effect": True, "answer": error(500)},
    "500": {"answer": error(500)},
    "stored_500": {"effect": False, "keyed": True, "answer": error(500)},
    "429": {"answer": error(429, "rate_limit_error") | {"headers": {"Retry-After": "1"}}},
    "401": {"answer": error(401, "invalid_request_error", message="Invalid API Key provided")},
    "stray": {"stray": True},
    "endless": {"endless": 256},
}


class ScriptError(ValueError):
    """The test asked for something that does not exist."""


def _known(what: str, given: Any, allowed: set[str]) -> None:
    if unknown := set(given) - allowed:
        raise ScriptError(f"unknown {what}: {', '.join(sorted(unknown))}")


def expand(do: Any) -> Do:
    """A preset's name, or an object that may name its preset in "like"."""
    if isinstance(do, str):
        do = {"like": do}
    do = dict(do)
    like = do.pop("like", "normal")
    if like not in PRESETS:
        raise ScriptError(f"unknown preset: {like}")
    do = PRESETS[like] | do
    _known("behaviour", do, DO_FIELDS)
    if isinstance(answer := do.get("answer"), dict):
        _known("answer field", answer, ANSWER_FIELDS)
    if do.get("then", "keep") not in ENDS:
        raise ScriptError(f"unknown end: {do['then']}")
    return do


class Rule:
    def __init__(self, spec: dict[str, Any], fields: set[str] = MATCH_FIELDS):
        _known("rule field", spec, {"name", "match", "do", "times"})
        self.match: dict[str, Any] = spec.get("match") or {}
        _known("match field", self.match, fields)
        self.do = expand(spec.get("do", "normal"))
        self.name = spec.get("name")
        times = spec.get("times", 1)
        self.left = float("inf") if times == "always" else int(times)
        self.seen = 0
        self.at_head = bool(HEAD_FIELDS & self.do.keys())
        if self.at_head and BODY_MATCHES & self.match.keys():
            raise ScriptError("a rule that acts before the body is read cannot match on the body")

    def wants(self, request: Any, dice: random.Random) -> bool:
        if self.left <= 0 or not self._fits(request):
            return False
        self.seen += 1
        if self.seen != self.match.get("nth", self.seen):
            return False
        return dice.random() < self.match.get("probability", 1)

    def _fits(self, request: Any) -> bool:
        match = self.match
        same = all(getattr(request, f) == match[f] for f in ("method", "kind", "op", "key", "number", "connection") if f in match)
        return (same
                and re.search(match.get("path", ""), request.target) is not None
                and match.get("contains", "").encode() in request.everything
                and all(re.search(p, request.head.get(n) or "") for n, p in match.get("header", {}).items()))


class Script:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.clear()

    def clear(self) -> None:
        with self.lock:
            self.rules: list[Rule] = []
            self.dice = random.Random(1)

    def add(self, specs: list[dict[str, Any]]) -> None:
        rules = [Rule(spec) for spec in specs]
        with self.lock:
            self.rules += rules

    def seed(self, value: int) -> None:
        with self.lock:
            self.dice = random.Random(value)

    def pick(self, request: Any, at_head: bool) -> Rule | None:
        with self.lock:
            for rule in self.rules:
                if rule.at_head == at_head and rule.wants(request, self.dice):
                    rule.left -= 1
                    return rule
        return None

    def unused(self) -> list[dict[str, Any]]:
        """Rules that a test meant to be hit and that were not: a test that proves nothing."""
        with self.lock:
            return [{"match": r.match, "do": r.do, "left": r.left} for r in self.rules if 0 < r.left < float("inf")]
