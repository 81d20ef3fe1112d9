"""Processes, SQL and figures: what the scenes are made of."""
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

TICK = os.sysconf("SC_CLK_TCK")


class Session:
    """One psql that stays connected."""

    def __init__(self):
        self.psql = subprocess.Popen(["psql", "-XqAt", "-F", "|", "-v", "ON_ERROR_STOP=1"], text=True,
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pid = int(self.sql("SELECT pg_backend_pid()"))

    def sql(self, statement):
        self.psql.stdin.write(statement + ";\n\\echo -- done\n")
        self.psql.stdin.flush()
        lines = []
        for line in self.psql.stdout:
            if line == "-- done\n":
                return "\n".join(lines)
            lines.append(line.rstrip("\n"))
        raise SystemExit(f"psql ended at: {statement[:200]}")

    def row(self, statement):
        return self.sql(statement).split("|")

    def number(self, statement):
        return float(self.sql(statement) or "nan")


def wait_until(ready, what, seconds=60, pause=0.05):
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            raise SystemExit(f"waited {seconds} s in vain: {what}")
        time.sleep(pause)


# ---------------------------------------------------------------- processes

def stat(pid):
    """The fields of /proc/PID/stat from the state on."""
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def cpu_of(pid):
    """CPU seconds of one process."""
    fields = stat(pid)
    return (int(fields[11]) + int(fields[12])) / TICK


def cpu_of_server(postmaster):
    """CPU seconds of a server: its processes, and those that have ended and were waited for."""
    time.sleep(0.2)
    own = stat(postmaster)
    total = sum(map(int, own[11:15])) / TICK
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if stat(entry.name)[1] == str(postmaster):
                    total += cpu_of(entry.name)
            except (FileNotFoundError, ProcessLookupError):
                pass
    return total


def resident_mb(pid):
    """Memory of the process alone, without what it shares."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    return float("nan")


# ------------------------------------------------------------------ pgbench

def pgbench(script, clients=1, seconds=2.0, rate=None, transactions=None, **variables):
    """Transactions per second, and the latency of each in microseconds if a rate is given."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        (path / "script.sql").write_text(script)
        command = ["pgbench", "-n", "-M", "prepared", "-c", str(clients), "-j", str(min(clients, 2)),
                   "-f", str(path / "script.sql")]
        command += ["-t", str(transactions)] if transactions else ["-T", str(round(seconds))]
        if rate:
            command += ["-R", str(rate), "-l", f"--log-prefix={path}/log"]
        for name, value in variables.items():
            command += ["-D", f"{name}={value}"]
        done = subprocess.run(command, text=True, capture_output=True, cwd=folder)
        if done.returncode != 0 or "number of failed transactions: 0 " not in done.stdout:
            raise SystemExit(f"pgbench: {done.stdout}\n{done.stderr}")
        tps = next(float(line.split()[2]) for line in done.stdout.splitlines() if line.startswith("tps"))
        took = []
        for log in path.glob("log*"):
            for line in log.read_text().splitlines():
                fields = line.split()
                took.append(int(fields[2]) - int(fields[6]))  # without the wait for its turn
    return tps, took


# ------------------------------------------------------------------ figures

def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")


def median(values):
    values = [v for v in values if v == v]
    return statistics.median(values) if values else float("nan")


def run_json(*command):
    done = subprocess.run([str(c) for c in command], text=True, capture_output=True)
    if done.returncode != 0:
        raise SystemExit(f"{command[0]}: {done.stderr}")
    return json.loads(done.stdout)
