"""One request and what the provider makes of it: read, wait, take effect, remember, answer."""
from __future__ import annotations

import base64
import json
import os
import subprocess
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import keystore
from answer import Answer, finish, json_answer, scripted, transmit
from bank import Thing, find_marker, parse_form, parse_params
from script import Rule
from wire import Body, Connection, Gone, Head, Malformed

if TYPE_CHECKING:
    from provider import Provider

KINDS = {"/v1/refunds": "refunds", "/things": "things"}
RUN_LIMIT_S = 120


class Request:
    """What a rule can match on."""

    def __init__(self, head: Head, connection: int, key_header: str):
        self.head, self.connection, self.number = head, connection, 0
        self.method, self.target = head.start[0], head.start[1]
        url = urlsplit(self.target)
        self.path, self.query = url.path, parse_form(url.query)
        self.key = head.get(key_header)
        self.kind = "lookup" if self.method in ("GET", "HEAD") else "send"
        self.body = Body()
        self.params: dict[str, Any] = self.query
        self.op = find_marker(self.query)

    def understand(self) -> None:
        """After the body was read."""
        if self.body.data:
            self.params = parse_params(self.head.get("Content-Type") or "", bytes(self.body.data))
            self.op = find_marker(self.params) or self.op

    @property
    def everything(self) -> bytes:
        return self.target.encode("latin-1") + b"\n" + bytes(self.body.data)

    @property
    def fingerprint(self) -> bytes:
        return f"{self.method} {self.target}\n".encode("latin-1") + bytes(self.body.data)

    def facts(self) -> dict[str, Any]:
        return {"method": self.method, "target": self.target, "path": self.path, "kind": self.kind,
                "headers": self.head.headers, "key": self.key}


class Exchange:
    """Plays one request; `keep` says whether the connection may carry another."""

    def __init__(self, provider: Provider, connection: Connection, seen: dict[str, Any], head: Head):
        self.provider, self.connection = provider, connection
        self.request = Request(head, seen["id"], provider.key_header)
        self.entry = provider.journal.arrived(seen, self.request.facts())
        self.request.number = self.entry["n"]
        self.do: dict[str, Any] = {}
        self.thing: Thing | None = None
        self.keep = False

    def play(self) -> None:
        try:
            self._choose(at_head=True)
            if self._read():
                self._respond()
        except (Gone, Malformed, ValueError, subprocess.SubprocessError) as error:
            self._note(error=str(error))
        finally:
            self._note(finished_at=time.time())

    def _note(self, **facts: Any) -> None:
        self.provider.journal.note(self.entry, **facts)

    def _choose(self, at_head: bool) -> None:
        rule: Rule | None = self.provider.script.pick(self.request, at_head)
        if rule is not None:
            self.do = rule.do
            self._note(rule=rule.name or str(rule.do))

    # -- reading --------------------------------------------------------------------------
    def _read(self) -> bool:
        """Read the body unless the script says otherwise; False ends the exchange."""
        stop, complete = self.do.get("stop_reading"), False
        try:
            if not self._greet():
                return False
            if stop is not None:
                self.connection.read_bytes(self.request.body, int(stop.get("after", 0)))
            else:
                self.connection.read_body(self.request.head, self.request.body)
                complete = True
        finally:
            self._received(complete)
        if stop is not None:
            finish(self.connection, stop.get("then", "close"))
            return False
        if not self.do:
            self._choose(at_head=False)
        return True

    def _greet(self) -> bool:
        """Expect: 100-continue."""
        if "100-continue" not in (self.request.head.get("Expect") or "").lower():
            return True
        manner = self.do.get("expect", "continue")
        if manner == "refuse":
            self._send(Answer(417, b""), {})
            return False
        if manner == "continue":
            self.connection.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        return True

    def _received(self, complete: bool) -> None:
        self.request.understand()
        self._note(received=True, complete=complete, op=self.request.op,
                   body_base64=base64.b64encode(bytes(self.request.body.data)).decode())

    # -- answering ------------------------------------------------------------------------
    def _respond(self) -> None:
        self._delay("delay_arrival")
        usual = self._usual()
        self._delay("delay_answer")
        answer = self.do.get("answer")
        if answer == "none":
            finish(self.connection, self.do.get("then", "close"))
            return
        self._send(scripted(answer, usual, self._facts()) if answer else usual, self.do)

    def _send(self, answer: Answer, do: dict[str, Any]) -> None:
        """Answer, perhaps twice, and leave the connection as told."""
        self._note(status=answer.status)
        self._note(bytes_out=transmit(self.connection, answer, do))
        if stray := do.get("stray"):
            spec = stray if isinstance(stray, dict) else {"patch": {"id": "re_stray", "metadata": {"op_id": "stray"}}}
            transmit(self.connection, scripted(spec, answer, self._facts()), {})
            self._note(stray=True)
        end = do.get("then", "close" if {"truncate", "endless", "content_length"} & do.keys() else "keep")
        finish(self.connection, end)
        self.keep = end == "keep" and not self.request.head.closes

    def _facts(self) -> dict[bytes, bytes]:
        thing_id = self.thing.data["id"] if self.thing else ""
        return {b"%ID%": thing_id.encode(), b"%MARKER%": json.dumps(self.request.op or "")[1:-1].encode()}

    @property
    def _account(self) -> str | None:
        """Whose objects and keys: one account a credential, if the test wants that."""
        return (self.request.head.get("Authorization") or "") if self.provider.accounts else None

    # -- what the provider does -----------------------------------------------------------
    def _usual(self) -> Answer:
        """The answer this provider would give; the effect happens on the way."""
        if refused := self._unauthorized():
            return refused
        kind = next((k for prefix, k in KINDS.items() if (self.request.path + "/").startswith(prefix + "/")), None)
        if kind is None:
            return json_answer(404, {"error": {"type": "invalid_request_error", "message": "Unrecognized request URL"}})
        if self.request.kind == "lookup":
            self._middle()
            return self._lookup(kind)
        if not (self._takes_effect or self.do.get("keyed")):
            self._middle()
            return json_answer(200, {})
        return self._keyed(kind)

    def _unauthorized(self) -> Answer | None:
        wanted = self.provider.authorization
        if wanted is None or self.request.head.get("Authorization") == wanted:
            return None
        return json_answer(401, {"error": {"type": "invalid_request_error", "message": "Invalid API Key provided"}})

    @property
    def _takes_effect(self) -> bool:
        """Said by the test; else only a scripted error takes no effect."""
        answer = self.do.get("answer")
        fine = not isinstance(answer, dict) or 200 <= answer.get("status", 200) < 300
        return bool(self.do.get("effect", fine))

    def _keyed(self, kind: str) -> Answer:
        """The endpoint behind the key store."""
        keys, key = self.provider.keys, self.request.key
        if key is not None and self._account is not None:
            key = f"{self._account} {key}"
        outcome, saved = keys.begin(key, self.request.fingerprint)
        self._note(outcome=outcome)
        if outcome not in (keystore.FRESH, keystore.UNKEYED):
            return self._again(outcome, saved)
        answer = self._work(kind)
        if not self.do.get("stuck"):
            spec = self.do.get("answer")
            kept = scripted(spec, answer, self._facts()) if isinstance(spec, dict) else answer
            keys.finish(key, kept.status, kept.body, self.thing.data["id"] if self.thing else None)
        return answer

    def _again(self, outcome: str, saved: keystore.Saved | None) -> Answer:
        if outcome == keystore.IN_PROGRESS:
            return json_answer(409, {"error": {"type": "invalid_request_error", "code": "idempotency_key_in_use",
                                               "message": "There is currently another in-progress request using this key."}})
        if outcome == keystore.MISMATCH:
            return json_answer(self.provider.mismatch_status, {"error": {
                "type": "idempotency_error", "message": "Keys can only be used with the same parameters they were first used with."}})
        return self._replay(saved)

    def _replay(self, saved: keystore.Saved | None) -> Answer:
        assert saved is not None and saved.status is not None
        marks = [("Idempotent-Replayed", b"true")] if self.provider.replay_header else []
        current = self.provider.bank.current(saved.object_id) if self.provider.keys.stores == "state" else None
        if current is not None:
            return json_answer(200, current, *marks)
        return Answer(saved.status, saved.body, [("Content-Type", b"application/json"), *marks])

    def _work(self, kind: str) -> Answer:
        self._delay("delay_before")
        self._run("run")
        answer = self._effect(kind) if self._takes_effect else json_answer(200, {})
        self._delay("delay_after")
        self._run("run_after")
        return answer

    def _effect(self, kind: str) -> Answer:
        bank = self.provider.bank
        with bank.mutex:
            if refusal := bank.refusal(kind, self.request.params):
                return json_answer(refusal[0], {"error": refusal[1]})
            self.thing = bank.create(kind, self.request.params, self.request.key, self.do)
            self.thing.account = self._account
            view = dict(self.thing.view())
        self._note(effect=view["id"])
        return json_answer(200 if kind == "refunds" else 201, view)

    def _lookup(self, kind: str) -> Answer:
        bank, tail = self.provider.bank, self.request.path.split("/")[-1]
        if tail != kind:
            found = bank.get(kind, tail, self._account)
            return json_answer(200, found) if found else json_answer(404, {"error": {"type": "invalid_request_error", "code": "resource_missing"}})
        rows, more = bank.page_of(kind, self.request.query, self._account)
        if kind == "refunds":
            return json_answer(200, {"object": "list", "data": rows, "has_more": more, "url": "/v1/refunds"})
        return json_answer(200, {"items": rows, "more": more})

    # -- in the middle --------------------------------------------------------------------
    def _middle(self) -> None:
        """Pauses and commands of an exchange without effect."""
        for delay, command in (("delay_before", "run"), ("delay_after", "run_after")):
            self._delay(delay)
            self._run(command)

    def _delay(self, name: str) -> None:
        if name in self.do:
            self._note(waiting=name)
            self.provider.gates.wait(self.do[name])
            self._note(waiting=None)

    def _run(self, name: str) -> None:
        """A shell command between request and answer; its output is in the log."""
        if name not in self.do:
            return
        env = os.environ | {"OP_MARKER": self.request.op or "", "OP_REQUEST": str(self.request.number)}
        done = subprocess.run(["/bin/sh", "-c", self.do[name]], env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=RUN_LIMIT_S)
        self._note(run={"status": done.returncode, "stdout": done.stdout.decode("utf-8", "replace"),
                        "stderr": done.stderr.decode("utf-8", "replace")})
