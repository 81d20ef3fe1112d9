#!/usr/bin/env python3
"""Runs the mutants of mutants.txt: each must be caught by its scenario.

    mutants.py SCENARIOS            check every mutant; SCENARIOS: `model list short`
    mutants.py SCENARIOS --find     which scenario catches each, smallest first
"""
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
SRC = os.path.join(HERE, "..", "..", "src", "rules")
BUILD = os.path.join(HERE, "build")
WORDS = ("mutant", "rule", "file", "scenario", "old", "new")


def read_mutants(path):
    mutants, field = [], None
    with open(path, encoding="utf-8") as f:
        for line in f:
            word = line[:8].rstrip()
            if line.startswith("#"):
                continue
            if len(line) > 7 and line[0] in "mrfson" and word in WORDS:
                if word == "mutant":
                    mutants.append({})
                field = word
                mutants[-1][field] = line[8:]
            elif field:
                mutants[-1][field] += line
    for m in mutants:
        for word, text in m.items():
            m[word] = text.rstrip() if word in ("old", "new") else text.strip()
    return mutants


def edited(mutant):
    """The text of the shipped file with the edit, or why there is none."""
    with open(os.path.join(SRC, mutant["file"]), encoding="utf-8") as f:
        text = f.read()
    # White space may be laid out anew by the formatter.
    old = re.compile(r"\s+".join(map(re.escape, mutant["old"].split())))
    if len(old.findall(text)) != 1:
        return None
    return old.sub(lambda _: mutant["new"], text)


def compiled(mutant, text):
    where = os.path.join(BUILD, "mutants", mutant["mutant"])
    os.makedirs(where, exist_ok=True)
    with open(os.path.join(where, mutant["file"]), "w", encoding="utf-8") as f:
        f.write(text)
    other = {"decide.c": "state.o", "state.c": "decide.o"}[mutant["file"]]
    parts = ["world", "scenario", "actors", "search", "lemma", "grid", "main", "probed"]
    program = os.path.join(where, "model")
    own = os.path.join(where, "mutant.o")
    subprocess.run(["cc", "-std=c11", "-O1", "-w", "-I" + os.path.dirname(SRC), "-c", "-o", own,
                    os.path.join(where, mutant["file"])], check=True, capture_output=True)
    subprocess.run(["c++", "-o", program, own, os.path.join(BUILD, other)]
                   + [os.path.join(BUILD, p + ".o") for p in parts], check=True)
    return program


def run(program, line, seconds=120):
    """What the search says: "states, verdict", or that it found nothing."""
    try:
        done = subprocess.run([program, "run"], input=line, text=True,
                              capture_output=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return False, "no answer in time"
    first = done.stdout.split("\n", 1)[0]
    if "VIOLATED" not in first:
        return False, first.strip() or done.stderr.strip()
    return True, first.split("VIOLATED: ", 1)[1]


def check(mutant, scenarios):
    name = mutant["mutant"]
    text = edited(mutant)
    if text is None:
        return False, f"mutant {name}: the edit no longer applies to {mutant['file']}"
    line = scenarios.get(mutant.get("scenario", ""))
    if line is None:
        return False, f"mutant {name}: no scenario {mutant.get('scenario')!r} in the grid"
    try:
        program = compiled(mutant, text)
    except subprocess.CalledProcessError as error:
        return False, f"mutant {name}: does not compile: {(error.stderr or b'').decode().strip()}"
    caught, what = run(program, line)
    if not caught:
        return False, f"mutant {name}: SURVIVED {mutant['scenario']} ({what})"
    return True, f"mutant {name:<42} caught by {mutant['scenario']:<36} {what}"


def find(mutant, scenarios):
    name, text = mutant["mutant"], edited(mutant)
    if text is None:
        return False, f"{name}\tDOES NOT APPLY"
    program = compiled(mutant, text)
    for scenario, line in scenarios.items():
        caught, what = run(program, line, 20)
        if caught:
            return True, f"{name}\t{scenario}\t{what}"
    return False, f"{name}\tSURVIVED"


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        lines = [line for line in f if line.strip() and line[0] != "#"]
    scenarios = {line.split()[0]: line for line in lines}
    mutants = read_mutants(os.path.join(HERE, "mutants.txt"))
    work = find if "--find" in sys.argv else check
    failed = 0
    with ThreadPoolExecutor(2) as pool:
        for good, text in pool.map(lambda m: work(m, scenarios), mutants):
            print(text, flush=True)
            failed += not good
    print(f"mutants: {len(mutants) - failed} caught, {failed} not")
    return 1 if failed else 0


sys.exit(main())
