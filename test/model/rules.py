#!/usr/bin/env python3
"""What no search and no table reaches, and which change of the rules nobody notices.

    rules.py points            each point of probe.py: does a table differ?
    rules.py ways FILE         FILE: what the search came through (MODEL_WAYS)

A point at which no table differs must be in equal.txt, with the reason; so must a way
that neither a scenario nor a table takes. What stands there and is not so fails, too.
The last line is for machines: "rules: N right, M wrong".
"""
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "build", "probed", "tables")


JOBS = int(os.environ.get("JOBS", "2"))


def ask(what, part="0/1"):
    out = subprocess.run([PROGRAM, what, os.path.join(HERE, "tables.txt")], check=True,
                         capture_output=True, text=True,
                         env={**os.environ, "MODEL_PART": part}).stdout
    return [line.split("\t") for line in out.splitlines()]


def excused(kind):
    """Names of equal.txt -> the reason above them, for points or ways."""
    found, reason, fresh = {}, "", False
    with open(os.path.join(HERE, "equal.txt"), encoding="utf-8") as f:
        for line in f.read().splitlines():
            if line.startswith("# "):
                reason = line[2:] if not fresh else reason + " " + line[2:]
                fresh = True
            elif not line:
                reason, fresh = "", False
            else:
                fresh = False
                word, name = line.split("\t")
                if word == kind:
                    found[name] = reason
    return found


def judge(kind, cases, what):
    """cases: (name, who notices or ""). Prints and counts what is wrong."""
    reasons = excused(kind)
    wrong = 0
    seen = set()
    for name, noticed in cases:
        seen.add(name)
        if noticed and name in reasons:
            print(f"{kind} {name}: is in equal.txt, but {noticed}")
        elif not noticed and name not in reasons:
            print(f"{kind} {name}: {what}")
        elif not noticed and not reasons[name]:
            print(f"{kind} {name}: is in equal.txt without a reason")
        else:
            continue
        wrong += 1
    for name in reasons:
        if name not in seen:
            print(f"{kind} {name}: is in equal.txt, but there is none of that name")
            wrong += 1
    return wrong


def points():
    with ThreadPoolExecutor(JOBS) as pool:
        parts = pool.map(lambda i: ask("mutants", f"{i}/{JOBS}"), range(JOBS))
    cases = [(name, where) for _, name, where in
             sorted(sum(parts, []), key=lambda case: int(case[0]))]
    wrong = judge("point", cases, "no table notices when it is changed")
    noticed = sum(bool(where) for _, where in cases)
    print(f"points: {len(cases)}, noticed by a table: {noticed}, the same: "
          f"{len(cases) - noticed - wrong}")
    print(f"rules: {len(cases) - wrong} right, {wrong} wrong")
    return wrong


def ways(path):
    with open(path, encoding="utf-8") as f:
        searched = set(f.read().splitlines())
    cases = ask("ways")
    for way, table in cases:
        if way not in searched and table:
            print(f"not searched: {way}: {table}")
    wrong = judge("way", [(way, "a scenario" if way in searched else table) for way, table in cases],
                  "no scenario and no table takes it")
    only = sum(way not in searched for way, _ in cases)
    print(f"ways: {len(cases)}, searched: {len(cases) - only}, by a table only: {only}")
    print(f"rules: {len(cases) - wrong} right, {wrong} wrong")
    return wrong


def main():
    if sys.argv[1] == "points":
        return points()
    return ways(sys.argv[2])


sys.exit(main() != 0)
