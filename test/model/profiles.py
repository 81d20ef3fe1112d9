#!/usr/bin/env python3
"""Turns the shipped profiles into scenarios, each action under its own promises.

Times are compressed: what counts is their order. Is the key remembered until an
absence is proven, or only until one more request has arrived, or not at all; may a
request arrive after we stopped waiting; does a lookup lag. Actions that promise the
same are searched once, under the name of the first.

    profiles.py PROFILE.json ...
"""
import json
import os
import re
import sys

UNITS = {"ms": 0.001, "s": 1, "min": 60, "h": 3600, "d": 86400}
STORES = ("nothing", "success", "state", "all")

# What a spec is silent about, as spec/spec.c fills it in.
DEFAULTS = {
    "key": {"in": "none", "ttl": "0 s", "margin": "5 s", "stores": "nothing"},
    "timeout": {"total": "30 s"},
    "retry": {"attempts": 3, "patience": "1 h"},
    "lookup": {"grade": "strong", "lag": "0 s"},
}

# What else happens, beside an action's own behaviour.
HAPPENINGS = {
    "wire": "attempts=2 pends=0 fails=0 fails_now=0 reverses=0 hooks=0",
    "tries": "people=0 pends=0 fails=0 reverses=0 hooks=0 busy=0 refuses=0",
    "objects": "attempts=2 people=0 busy=0 refuses=0 dies=0",
    "reissued": "attempts=1 reissue=1 pends=0 fails=0 fails_now=0 reverses=0 hooks=0 "
                "busy=0 refuses=0 dies=0 already=0 mismatch=0",
    "held": "attempts=2 held=1 not_after=3 pends=0 fails=0 fails_now=0 reverses=0 "
            "hooks=0 busy=0",
    "restored": "attempts=1 backup=1 pends=0 fails=0 fails_now=0 reverses=0 hooks=0 "
                "busy=0 refuses=0 dies=0 already=0 mismatch=0",
}


def seconds(text):
    return sum(float(n) * UNITS[u]
               for n, u in re.findall(r"([\d.]+)\s*(ms|min|s|h|d)\b", text))


def merged(low, high):
    if not (isinstance(low, dict) and isinstance(high, dict)):
        return high
    return {k: merged(low[k], high[k]) if k in low and k in high
            else high.get(k, low.get(k)) for k in {**low, **high}}


def compressed_ttl(spec, margin, reach, quiet):
    """-1 stands for: until just past quiet, see scenario.cpp."""
    ttl = seconds(spec["key"]["ttl"])
    if ttl == 0:
        return "ttl=0"
    if ttl > quiet + margin + reach:
        return "ttl=-1"
    return "ttl=4"


def promises(spec):
    key, timeout = spec["key"], spec["timeout"]
    lookup = spec.get("lookup") or {}
    rules = spec.get("rules", [])
    total = seconds(timeout["total"])
    flight = seconds(timeout.get("flight", f"{max(total, 60)} s"))
    lag = seconds(spec["lookup"]["lag"]) if "path" in lookup else 0
    margin = seconds(key["margin"])
    stores = key["stores"]
    guards = key.get("guards", stores in ("all", "state"))
    kept = key["in"] != "none" and seconds(key["ttl"]) > 0
    thens = {r["then"] for r in rules}
    obj = spec.get("object") or {}
    fields = {
        "stores": STORES.index(stores),
        "guards": int(guards),
        "attempts": spec["retry"]["attempts"],
        "flight": 2 if flight > total else 1,
        "timeout": 1 if flight > total else 2,
        "margin": 1 if margin > 0 else 0,
        "lag": 1 if lag > 0 else 0,
        "recipe": int("path" in lookup),
        "first": int(bool(lookup.get("first"))),
        "key": int(kept),
        "lock": int(bool(guards)),
        "clean": int(stores == "success" and bool(guards)),
        "marked": int("replayed" in key),
        "declared": 2 if any(r.get("keyed") for r in rules) else 0,
        "already": int("already_done" in thens),
        "mismatch": int("mismatch" in thens),
        "pends": int("pending" in obj),
        "fails": int("pending" in obj and "failed" in obj),
        "fails_now": int("failed" in obj),
        "reverses": int("failed" in obj),
        "hooks": int("webhook" in spec),
        "anonymous": int("id" not in obj),
    }
    ttl = compressed_ttl(spec, margin, max(flight, total), margin + flight + lag)
    return " ".join(f"{k}={v}" for k, v in fields.items()) + " " + ttl


def actions(path):
    with open(path, encoding="utf-8") as f:
        profile = json.load(f)
    name = os.path.splitext(os.path.basename(path))[0]
    base = merged(DEFAULTS, profile.get("provider", {}))
    for action, spec in sorted(profile.get("actions", {}).items()):
        whole = merged(base, spec)
        yield f"{name}.{action}", promises(whole)


def main():
    known = {}
    for path in sorted(sys.argv[1:]):
        for name, fields in actions(path):
            known.setdefault(fields, []).append(name)
    for fields, names in known.items():
        if len(names) > 1:
            print(f"# {names[0]} stands for {', '.join(names[1:])}, too")
        for what, more in HAPPENINGS.items():
            if what == "objects" and "pends=0" in fields and "fails_now=0" in fields:
                continue
            print(f"profile/{names[0]}/{what} {fields} {more}")


main()
