#!/usr/bin/env python3
"""Runs the scenes in interleaved rounds, prints the table, writes the report.

    run.py WORK URL CEILING REPORT
"""
import argparse
import collections
import json
import time

import scenes
from tools import median

SHOWN_SETTINGS = ["server_version", "shared_buffers", "fsync", "synchronous_commit", "full_page_writes", "wal_level",
                  "max_wal_size", "checkpoint_timeout", "autovacuum", "track_commit_timestamp"]


class Figures:
    """Figures of all rounds by name; the median is what counts."""

    def __init__(self):
        self.rounds = collections.defaultdict(list)

    def add(self, scene, figures):
        for name, value in figures.items():
            if isinstance(value, (int, float)):
                self.rounds[f"{scene}.{name}"].append(value)

    def get(self, name):
        return median(self.rounds[name])

    def ratio(self, ours, limit):
        """The median of the ratios of each round: both were measured in the same minute."""
        return median([a / b for a, b in zip(self.rounds[ours], self.rounds[limit]) if b])


# ------------------------------------------------------------------- rounds

def one_round(stage, figures, options):
    drained = scenes.drain(stage, options.operations)
    figures.add("drain", drained)
    for clients in (1, 8):
        figures.add(f"submit{clients}", scenes.submit(stage, clients, options.seconds))
    both = scenes.together(stage, options.seconds + 1)
    alone = {"submit_alone": figures.rounds["submit8.ours"][-1], "drain_alone": drained["rate"]}
    both["sum"] = both["submitted"] + both["settled"]
    both["better"] = max(alone.values())
    both["share"] = min(both["submitted"], both["settled"]) / both["sum"]
    figures.add("together", both)
    figures.add("answering", scenes.answering(stage, drained["prefix"], options.operations, 8, options.seconds))
    for rate in (50, 500):
        found = scenes.latency(stage, rate, options.seconds + 1)
        found["limit"] = 3 * found["commit_p50"] + found["request_p50"]
        figures.add(f"latency{rate}", found)


# -------------------------------------------------------------------- table

def table(f):
    """Lines: what, ours, limit, ratio, goal, and whether it is met (None: no goal)."""
    lines = []

    def line(what, ours, limit, ratio, goal, met):
        lines.append((what, ours, limit, ratio, goal, met))

    def rate(what, ours, limit, name, goal):
        ratio = f.ratio(ours, limit)
        line(what, f"{f.get(ours):,.0f}/s", f"{f.get(limit):,.0f}/s {name}", ratio, goal and f"≥ {goal}",
             None if goal is None else ratio >= goal)

    rate("drain", "drain.rate", "drain.bare", "bare libcurl", 0.45)
    for clients, two, three in ((1, None, None), (8, 0.8, 0.9)):
        rate(f"submit, {clients} client(s)", f"submit{clients}.ours", f"submit{clients}.two", "two tables", two)
        rate(f"submit, {clients} client(s)", f"submit{clients}.ours", f"submit{clients}.three", "three and index", three)
    rate("together, submitted + settled", "together.sum", "together.better", "better alone", 0.7)
    line("  submitted | settled", f"{f.get('together.submitted'):,.0f}/s | {f.get('together.settled'):,.0f}/s",
         "neither starves", f.get("together.share"), "≥ 0.2", f.get("together.share") >= 0.2)
    for per_second, goal in ((50, 1.3), (500, None)):
        s = f"latency{per_second}"
        ratio = f.ratio(f"{s}.p50", f"{s}.limit")
        line(f"latency at {per_second}/s, p50", f"{f.get(s + '.p50') / 1000:.2f} ms",
             f"{f.get(s + '.limit') / 1000:.2f} ms 3 commits, 1 request", ratio, goal and f"≤ {goal}",
             None if goal is None else ratio <= goal)
        line(f"latency at {per_second}/s, p99", f"{f.get(s + '.p99') / 1000:.2f} ms",
             f"{(3 * f.get(s + '.commit_p99') + f.get(s + '.request_p99')) / 1000:.2f} ms of their p99",
             f.get(s + ".p99") / (3 * f.get(s + ".commit_p99") + f.get(s + ".request_p99")), None, None)
    rate("op_submit of a confirmed id", "answering.again", "answering.select", "SELECT by key", 0.7)
    rate("op_status", "answering.status", "answering.select", "SELECT by key", 0.7)
    line("CPU of a drained operation", f"{f.get('drain.worker_cpu_us'):.0f} µs worker, "
         f"{f.get('drain.server_cpu_us'):.0f} µs server", f"{f.get('drain.bare_cpu_us'):.0f} µs bare libcurl", None, None, None)
    line("WAL of a drained operation", f"{f.get('drain.wal'):,.0f} B", "", None, None, None)
    line("CPU of a submit, 8 clients", f"{f.get('submit8.cpu_us'):.0f} µs server",
         f"{f.get('submit8.two_cpu_us'):.0f} µs two tables", f.ratio("submit8.cpu_us", "submit8.two_cpu_us"), None, None)
    line("WAL of a submit", f"{f.get('submit8.wal'):,.0f} B", f"{f.get('submit8.two_wal'):,.0f} B two tables",
         f.ratio("submit8.wal", "submit8.two_wal"), None, None)
    line("idle worker", f"{f.get('idle.percent'):.3f} % CPU", "", None, "≤ 0.1", f.get("idle.percent") <= 0.1)
    return lines


GROWN = (0, 1_000_000, 5_000_000)


def growth_table(f, row):
    lines = []
    for what, limit in (("drain", "bare libcurl"), ("submit", "two tables")):
        first = f.get(f"growth0.{what}")
        for size in GROWN:
            now = f.get(f"growth{size}.{what}")
            flat = now / first
            lines.append((f"{what}, {size // 1_000_000} million ended", f"{now:.3f} of {limit}", f"{first:.3f} with none",
                          flat, None if size == 0 else "≥ 0.9", None if size == 0 else flat >= 0.9))
    for size in GROWN:
        lines.append((f"CPU per drained, {size // 1_000_000} million ended", f"{f.get(f'growth{size}.cpu_us'):.0f} µs",
                      f"{f.get('growth0.cpu_us'):.0f} µs with none", f.get(f"growth{size}.cpu_us") / f.get("growth0.cpu_us"),
                      None, None))
    flat = row["last"] / row["first"]
    lines.append(("a long drain, last tenth", f"{row['last']:,.0f}/s", f"{row['first']:,.0f}/s first tenth", flat,
                  "≥ 0.9", flat >= 0.9))
    lines.append(("op_due after it", f"{row['agenda_after_mb']:.1f} MB", f"{row['agenda_before_mb']:.1f} MB full", None, None, None))
    flat = row["memory_last_mb"] / row["memory_first_mb"]
    lines.append(("memory of the worker", f"{row['memory_last_mb']:.1f} MB", f"{row['memory_first_mb']:.1f} MB at first",
                  flat, "≤ 1.1", flat <= 1.1))
    return lines


def grow(stage, figures, options):
    """The scenes of --growth: what many ended operations, and many in a row, change."""
    before = 0
    for size in GROWN:
        if size > before:
            scenes.age(stage, before, size)
            before = size
        figures.add(f"growth{size}", scenes.grown(stage, options.operations // 2, options.seconds + 1, options.rounds))
        print(f"{size:,} ended: drain {figures.get(f'growth{size}.drain'):.3f} of bare, submit "
              f"{figures.get(f'growth{size}.submit'):.3f} of two tables", flush=True)
    row = scenes.in_a_row(stage, 10 * options.operations)
    figures.add("row", row)
    return growth_table(figures, row)


def show(lines):
    form = "{:<32} {:>26}   {:<34} {:>6}  {:>7}  {}"
    print(form.format("what", "ours", "limit, same run", "ratio", "goal", ""))
    for what, ours, limit, ratio, goal, met in lines:
        print(form.format(what, ours, limit, "" if ratio is None else f"{ratio:.2f}", goal or "",
                          {True: "met", False: "MISSED", None: ""}[met]))


def settings(stage):
    return {name: stage.db.sql(f"SHOW {name}") for name in SHOWN_SETTINGS}


def measure(stage, figures, options):
    """The scenes of a plain run."""
    figures.add("idle", {"percent": scenes.idle(stage, 5)})
    for number in range(options.rounds):
        one_round(stage, figures, options)
        print(f"round {number + 1} of {options.rounds}: drain {figures.rounds['drain.rate'][-1]:,.0f}/s of "
              f"{figures.rounds['drain.bare'][-1]:,.0f}/s", flush=True)
    return table(figures)


def main():
    parser = argparse.ArgumentParser()
    for name in ("work", "url", "ceiling", "report"):
        parser.add_argument(name)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--operations", type=int, default=20000)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--growth", action="store_true", help="with 0, 1 and 5 million ended operations, and many in a row")
    options = parser.parse_args()
    began = time.time()
    stage = scenes.Stage(options.url, options.ceiling, options.work)
    shown = settings(stage)
    print("  ".join(f"{k} = {v}" for k, v in shown.items()), flush=True)
    figures = Figures()
    scenes.drain_once(stage, 2000)  # plans, caches and connections are there
    lines = grow(stage, figures, options) if options.growth else measure(stage, figures, options)
    print()
    show(lines)
    with open(options.report, "w", encoding="utf-8") as out:
        json.dump({"settings": shown, "seconds": round(time.time() - began), "rounds": options.rounds,
                   "operations": options.operations,
                   "table": [dict(zip(("what", "ours", "limit", "ratio", "goal", "met"), line)) for line in lines],
                   "figures": {k: {"median": median(v), "rounds": v} for k, v in sorted(figures.rounds.items())}},
                  out, indent=1, ensure_ascii=False)
    print(f"\n{time.time() - began:.0f} s")


if __name__ == "__main__":
    main()
