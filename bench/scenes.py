"""The scenes: each measures ours and its limit in the same round, and returns a dictionary of figures."""
import json
import pathlib
import threading
import time

from tools import (Session, cpu_of, cpu_of_server, median, percentile, pgbench, resident_mb, run_json,
                   wait_until)

# 1 KB that no compression makes smaller: hexadecimal digits of a hash.
FILLER = """(SELECT string_agg(md5('filler' || i), '') FROM generate_series(1, 31) AS i)"""


class Stage:
    """What all scenes share: a session, the worker, the provider, and one operation's arguments."""

    def __init__(self, url, ceiling, work):
        self.url = url
        self.ceiling = ceiling
        self.db = Session()
        self.postmaster = int(pathlib.Path(work, "data", "postmaster.pid").read_text().split()[0])
        self.body = self.db.sql(f"SELECT jsonb_build_object('number', 4711, 'text', {FILLER})")
        self.args = json.dumps({"body": json.loads(self.body)})
        self.body_file = pathlib.Path(work, "body.json")
        self.body_file.write_text(self.body)
        self.db.sql(f"CREATE OR REPLACE FUNCTION bench_args() RETURNS jsonb IMMUTABLE LANGUAGE sql AS $$SELECT '{self.args}'::jsonb$$")
        wait_until(lambda: self.worker() > 0, "the worker starts")
        self.series = 0

    def worker(self):
        return int(self.db.sql("SELECT coalesce((SELECT pid FROM _op_worker() WHERE state = 'running'), 0)"))

    def next_series(self):
        self.series += 1
        return f"s{self.series:04d}"

    # ---- filling and emptying the agenda

    def fill(self, count, action="mill.order"):
        """Submits in one transaction; returns the prefix of the ids."""
        prefix = self.next_series()
        self.db.sql(f"SELECT count(op_submit('{prefix}-' || (100000000 + n), '{action}', bench_args()))"
                    f" FROM generate_series(1, {count}) AS n")
        return prefix

    def empty_shelf(self):
        self.db.sql("DELETE FROM op_due WHERE provider = 'shelf'")
        self.db.sql("VACUUM op_due")
        self.db.sql("TRUNCATE plain_operation, plain_request, plain_due, plain_row")

    def wait_empty(self, seconds=120):
        wait_until(lambda: self.db.sql("SELECT EXISTS (SELECT FROM op_due WHERE provider = 'mill')") == "f",
                   "the agenda empties", seconds, 0.1)

    def bare_requests(self, count, in_flight, *rate):
        return run_json(self.ceiling, self.url, count, in_flight, self.body_file, *rate)

    def wal(self):
        return self.db.number("SELECT pg_current_wal_insert_lsn() - '0/0'")


# -------------------------------------------------------------------- drain

def drain_once(stage, count):
    """Operations per second from the moment the provider is resumed to the last settled one."""
    stage.db.sql("SELECT op_provider_pause('mill')")
    prefix = stage.fill(count)
    time.sleep(0.3)
    worker = stage.worker()
    wal, cpu, server = stage.wal(), cpu_of(worker), cpu_of_server(stage.postmaster)
    begin = stage.db.sql("SELECT clock_timestamp() FROM op_provider_resume('mill')")
    stage.wait_empty()
    cpu, server = cpu_of(worker) - cpu, cpu_of_server(stage.postmaster) - server
    wal = stage.wal() - wal
    seconds, confirmed = map(float, stage.db.row(
        f"SELECT extract(epoch FROM max(settled_at) - '{begin}'), count(*) FILTER (WHERE state = 'confirmed')"
        f" FROM op_operation WHERE op_id >= '{prefix}-' AND op_id < '{prefix}.'"))
    if confirmed != count:
        raise SystemExit(f"{confirmed} of {count} operations were confirmed")
    return {"rate": count / seconds, "worker_cpu_us": cpu / count * 1e6, "server_cpu_us": server / count * 1e6,
            "wal": wal / count, "prefix": prefix}


def drain(stage, count):
    bare = stage.bare_requests(count, 64)
    ours = drain_once(stage, count)
    return {"bare": bare["per_second"], "bare_cpu_us": bare["cpu_us"], **ours}


# ------------------------------------------------------------------- submit

SUBMIT = """\\set n :n + 1
SELECT op_submit(:prefix || '-' || :client_id || '-' || :n, :action, :args);
"""

PLAIN = """\\set n :n + 1
WITH o AS (
 INSERT INTO plain_operation VALUES (:prefix || '-' || :client_id || '-' || :n, 'shelf.order', 'shelf', 'pending',
                                     '\\x0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef',
                                     'postgres', clock_timestamp()) RETURNING op_id
){agenda}
INSERT INTO plain_request SELECT op_id, 1, :args, op_id, 'POST', 'http://127.0.0.1:12345/v1/orders',
       ARRAY['Content-Type: application/json', 'Idempotency-Key: ' || op_id], convert_to(:body, 'UTF8') FROM o;
"""
AGENDA = ", d AS (INSERT INTO plain_due SELECT op_id, 'shelf', 'send', clock_timestamp(), NULL FROM o)"
PLAIN_TWO = PLAIN.format(agenda="")
PLAIN_THREE = PLAIN.format(agenda=AGENDA)


def submit(stage, clients, seconds):
    """One transaction each: op_submit, and plain inserts of the same bytes."""
    def run(script):
        return pgbench(script, clients, seconds, n=0, prefix=stage.next_series(), args=stage.args, body=stage.body,
                       action="shelf.order")[0]

    worker = stage.worker()
    wal, server, own = stage.wal(), cpu_of_server(stage.postmaster), cpu_of(worker)
    ours = run(SUBMIT)
    server, own, wal = cpu_of_server(stage.postmaster) - server, cpu_of(worker) - own, stage.wal() - wal
    count = ours * seconds
    figures = {"ours": ours, "cpu_us": server / count * 1e6, "worker_cpu_us": own / count * 1e6, "wal": wal / count}
    wal, server = stage.wal(), cpu_of_server(stage.postmaster)
    figures["two"] = run(PLAIN_TWO)
    figures["two_cpu_us"] = (cpu_of_server(stage.postmaster) - server) / (figures["two"] * seconds) * 1e6
    figures["two_wal"] = (stage.wal() - wal) / (figures["two"] * seconds)
    figures["three"] = run(PLAIN_THREE)
    stage.empty_shelf()
    return figures


# ----------------------------------------------------------------- together

def together(stage, seconds):
    """8 clients submit while the worker drains what they submit."""
    prefix = stage.next_series()
    begin = stage.db.sql("SELECT clock_timestamp()")
    tps, _ = pgbench(SUBMIT, 8, seconds, n=0, prefix=prefix, args=stage.args, action="mill.order")
    end = stage.db.sql("SELECT clock_timestamp()")
    settled = stage.db.number(
        f"SELECT count(*) / extract(epoch FROM timestamptz '{end}' - '{begin}') FROM op_operation"
        f" WHERE op_id >= '{prefix}-' AND op_id < '{prefix}.' AND settled_at <= '{end}'")
    stage.wait_empty()
    return {"submitted": tps, "settled": settled}


# ------------------------------------------------------------------ latency

ONE_ROW = "INSERT INTO plain_row VALUES (1);\n"


def latency(stage, rate, seconds):
    """Microseconds from the commit of op_submit to the commit of confirmed. Both moments are commit timestamps,
    which are taken before the log is flushed; so one bare commit is added."""
    prefix = stage.next_series()
    pgbench(SUBMIT, 1, seconds, rate=rate, n=0, prefix=prefix, args=stage.args, action="mill.order")
    stage.wait_empty()
    took = [float(x) for x in stage.db.sql(
        "SELECT extract(epoch FROM pg_xact_commit_timestamp(o.xmin) - pg_xact_commit_timestamp(r.xmin)) * 1e6"
        "  FROM op_operation AS o JOIN op_request AS r USING (op_id)"
        f" WHERE o.op_id >= '{prefix}-' AND o.op_id < '{prefix}.' AND o.state = 'confirmed'").split()]
    _, commits = pgbench(ONE_ROW, 1, seconds, rate=rate)
    request = stage.bare_requests(int(rate * seconds), 1, rate)
    commit = {50: percentile(commits, 0.5), 99: percentile(commits, 0.99)}
    return {"p50": percentile(took, 0.5) + commit[50], "p99": percentile(took, 0.99) + commit[50],
            "commit_p50": commit[50], "commit_p99": commit[99],
            "request_p50": request["p50_us"], "request_p99": request["p99_us"]}


# ---------------------------------------------------------------- answering

PICK = "\\set n 100000000 + random(1, :count)\n"
AGAIN = PICK + "SELECT op_submit(:prefix || '-' || :n, 'mill.order', :args);\n"
STATUS = PICK + "SELECT op_status(:prefix || '-' || :n);\n"
SELECT = PICK + "SELECT state, external_id FROM op_operation WHERE op_id = :prefix || '-' || :n;\n"


def answering(stage, prefix, count, clients, seconds):
    """Calls per second that ask for an operation that is confirmed."""
    def run(script):
        return pgbench(script, clients, seconds, prefix=prefix, count=count, args=stage.args)[0]

    return {"again": run(AGAIN), "status": run(STATUS), "select": run(SELECT)}


# --------------------------------------------------------------------- idle

def idle(stage, seconds):
    """Share of one CPU that the worker takes with nothing to do, in percent."""
    worker = stage.worker()
    time.sleep(1)
    before = pathlib.Path(f"/proc/{worker}/schedstat").read_text().split()[0]
    time.sleep(seconds)
    after = pathlib.Path(f"/proc/{worker}/schedstat").read_text().split()[0]
    return (int(after) - int(before)) / 1e9 / seconds * 100


# ------------------------------------------------------------------- growth

OLD = """
INSERT INTO op_operation (op_id, action, provider, state, attempts, tries, trying_since, first_sent_at, last_sent_at,
                          external_id, args_hash, submitted_by, created_at, settled_at)
SELECT 'old-' || n, 'mill.order', 'mill', 'confirmed', 1, 1, t, t, t, 'ob_' || n, sha256(n::text::bytea), 'postgres', t, t
  FROM generate_series({first}, {last}) AS n, (VALUES (clock_timestamp() - interval '30 d')) AS v (t);
INSERT INTO op_request (op_id, generation, args, key, method, url, headers, body, base_url)
SELECT 'old-' || n, 1, bench_args(), 'old-' || n, 'POST', '{url}', '{{}}', convert_to('{body}', 'UTF8'), '{url}'
  FROM generate_series({first}, {last}, 20) AS n;
INSERT INTO op_attempt (op_id, n, kind, generation, started_at, finished_at, verdict)
SELECT 'old-' || n, 1, 'send', 1, t, t, 'confirmed'
  FROM generate_series({first}, {last}, 4) AS n, (VALUES (clock_timestamp() - interval '30 d')) AS v (t);
VACUUM ANALYZE op_operation, op_request, op_attempt"""


def age(stage, before, after):
    """As if that many operations had ended long ago."""
    stage.db.sql(OLD.format(first=before + 1, last=after, url=stage.url, body=stage.body))


def grown(stage, count, seconds, rounds):
    """Drain and submit beside their limits, as they are now."""
    drained, submitted, cpu = [], [], []
    for _ in range(rounds):
        figures = drain(stage, count)
        drained.append(figures["rate"] / figures["bare"])
        cpu.append(figures["worker_cpu_us"])
        figures = submit(stage, 8, seconds)
        submitted.append(figures["ours"] / figures["two"])
    return {"drain": median(drained), "submit": median(submitted), "cpu_us": median(cpu)}


def in_a_row(stage, count):
    """One long drain: operations per second in its first and last tenth, and what is left behind."""
    stage.db.sql("SELECT op_provider_pause('mill')")
    prefix = stage.next_series()
    for first in range(1, count + 1, 20000):
        stage.db.sql(f"SELECT count(op_submit('{prefix}-' || (100000000 + n), 'mill.order', bench_args()))"
                     f" FROM generate_series({first}, {first + 19999}) AS n")
    worker = stage.worker()
    memory = [resident_mb(worker)]
    agenda = stage.db.number("SELECT pg_total_relation_size('op_due') / 1e6")
    stage.db.sql("SELECT op_provider_resume('mill')")

    def settled():
        memory.append(resident_mb(worker))
        return stage.db.sql("SELECT EXISTS (SELECT FROM op_due WHERE provider = 'mill')") == "f"

    wait_until(settled, "a long drain ends", 600, 1)
    tenths = [float(x) for x in stage.db.sql(f"""
        SELECT count(*) / extract(epoch FROM max(settled_at) - min(settled_at))
          FROM (SELECT settled_at, ntile(10) OVER (ORDER BY settled_at) AS tenth FROM op_operation
                 WHERE op_id >= '{prefix}-' AND op_id < '{prefix}.') AS s
         WHERE tenth IN (1, 10) GROUP BY tenth ORDER BY tenth""").split()]
    return {"first": tenths[0], "last": tenths[1], "agenda_before_mb": agenda,
            "agenda_after_mb": stage.db.number("SELECT pg_total_relation_size('op_due') / 1e6"),
            "memory_first_mb": memory[min(3, len(memory) - 1)], "memory_last_mb": memory[-1]}
