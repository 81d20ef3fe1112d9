#!/usr/bin/env python3
"""Each rule of lint.py, broken once in a small tree of its own.

The tree as it is has no faults; each case adds to a file, or writes one, and must
bring exactly the faults that are listed with it.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import lint

SQL_FUNCTION = """#define SQL(f) extern SHOWN long f(void); extern SHOWN int pg_finfo_##f(void); int pg_finfo_##f(void) { return 1; }
"""

TREE = {
    "src/op_ledger.c": '#include "worker/turn.h"\n'
    "SHOWN int Pg_magic_func(void) { return 15; }\nSHOWN void _PG_init(void) { turn_take(1); }\n",
    "src/base/text.h": "extern int text_length(const char *text);\nextern int text_limit;\n",
    "src/base/text.c": '#include "base/text.h"\nint text_limit = 8;\n'
    "int text_length(const char *text) { return *text ? 1 : text_limit; }\n",
    "src/rules/state.h": "#pragma once\nextern int state_next(int state);\n",
    "src/rules/state.c": '/* SPI_connect, malloc: only words */\n#include "rules/state.h"\n'
    "int state_next(int state) { return state + 1; }\n",
    "src/worker/turn.h": "extern int turn_take(int n);\nextern void (*turn_hook)(int);\n"
    "extern SHOWN void op_ledger_launcher_main(void);\nextern SHOWN void op_ledger_worker_main(void);\n",
    "src/worker/turn.c": '#include "worker/turn.h"\n#include "base/text.h"\n#include "rules/state.h"\n'
    'void (*turn_hook)(int);\n'
    'void op_ledger_launcher_main(void) {}\nvoid op_ledger_worker_main(void) {}\nint turn_take(int n) { return state_next(n) + text_length("SPI_connect"); }\n',
    "src/session/status.c": SQL_FUNCTION + '#include "base/text.h"\nSQL(op_status)\n'
    'long op_status(void) { return text_length("x"); }\n',
    "src/sql/10_status.sql": "CREATE FUNCTION op_status() RETURNS bigint LANGUAGE c AS 'MODULE_PATHNAME';\n"
    "COMMENT ON FUNCTION op_status() IS 'one; two';\n",
}

# What is broken: text added to a file, or a new file; and what lint says of it.
CASES = {
    "a room uses one to its right, by include": (
        {"src/base/text.c": '#include "worker/turn.h"\n'},
        ["base/text includes turn.h of worker/turn: base may not use worker",
         "circle: text includes turn.h of turn, turn uses text_length of text"]),
    "a room uses one to its right, by call alone": (
        {"src/base/more.h": "", "src/base/more.c": "int turn_take(int n);\nstatic int more(void) { return turn_take(1); }\nint (*unused)(void) = more;\n"},
        ["base/more uses turn_take of worker/turn: base may not use worker",
         "src/base/more.c defines unused, which more.h does not declare"]),
    "the wings meet": (
        {"src/session/status.c": "int turn_take(int n);\nstatic int (*meet)(int) __attribute__((used)) = turn_take;\n"},
        ["session/status uses turn_take of worker/turn: session may not use worker"]),
    "a room uses what starts everything": (
        {"src/base/text.c": "void _PG_init(void);\nstatic void (*start)(void) __attribute__((used)) = _PG_init;\n"},
        ["base/text uses _PG_init of src/op_ledger: base may not use src",
         "circle: op_ledger uses turn_take of turn, turn uses text_length of text, text uses _PG_init of op_ledger"]),
    "a circle by includes": (
        {"src/rules/state.h": '#include "rules/other.h"\n', "src/rules/other.h": '#pragma once\n#include "rules/state.h"\n'},
        ["circle: other includes state.h of state, state includes other.h of other"]),
    "a circle by calls": (
        {"src/base/more.h": "extern int more_of(const char *text);\n",
         "src/base/more.c": '#include "base/more.h"\n#include "base/text.h"\nint more_of(const char *text) { return text_length(text); }\n',
         "src/base/text.c": "int more_of(const char *text);\nstatic int (*more)(const char *) __attribute__((used)) = more_of;\n"},
        ["circle: more uses text_length of text, text uses more_of of more"]),
    "an extern without a declaration": (
        {"src/worker/turn.c": "int turn_secret(void) { return 1; }\n"},
        ["src/worker/turn.c defines turn_secret, which turn.h does not declare"]),
    "a declaration of what another file defines": (
        {"src/rules/state.h": "extern int elsewhere(void);\n"},
        ["src/rules/state.h declares elsewhere, which state.c does not define"]),
    "a source that declares by itself": (
        {"src/worker/turn.c": "extern int text_limit;\n"},
        ["src/worker/turn.c declares text_limit itself: include the header"]),
    "two files of one name": (
        {"src/store/text.h": ""},
        ["there is a file text in base and in store"]),
    "a symbol that everybody sees": (
        {"src/worker/turn.h": "extern SHOWN int turn_shown(void);\n", "src/worker/turn.c": "int turn_shown(void) { return 1; }\n"},
        ["op_ledger.so exports turn_shown"]),
    "an SQL function that is never created": (
        {"src/session/status.c": "SQL(op_more)\nlong op_more(void) { return 2; }\n"},
        ["op_ledger.so has the SQL function op_more, which src/sql does not create"]),
    "a window in the product": (
        {"src/session/status.c": "SQL(_op_inside)\nlong _op_inside(void) { return 2; }\n",
         "src/sql/10_status.sql": "CREATE FUNCTION _op_inside() RETURNS bigint LANGUAGE c AS 'MODULE_PATHNAME', '_op_inside';\n"
         "COMMENT ON FUNCTION _op_inside() IS '_op_inside()';\n"},
        ["src/sql creates _op_inside and never calls it: what tests need is in test/windows"]),
    "SPI elsewhere": (
        {"src/worker/turn.c": "#define CALL SPI_connect\n"},
        [r"src/worker/turn.c uses SPI, as only .* may"]),
    "curl elsewhere": (
        {"src/worker/turn.c": "#if 0\n#include <curl/curl.h>\n#endif\n"},
        ["src/worker/turn.c includes curl, as only transport.c may"]),
    "the executor elsewhere": (
        {"src/worker/turn.c": "#define INSERT table_tuple_insert\n"},
        [r"src/worker/turn.c uses the executor's functions for rows, as only .* may"]),
    "a table read elsewhere": (
        {"src/worker/turn.c": 'static const char *table __attribute__((used)) = "op_due";\n'},
        ["src/worker/turn.c reads or writes op_due, as only agenda.c may"]),
    "a table written elsewhere": (
        {"src/worker/turn.c": 'static const char *write __attribute__((used)) = "UPDATE @.op_provider SET";\n'},
        ["src/worker/turn.c reads or writes op_provider, as only config.c may"]),
    "a hot table written by a statement": (
        {"src/store/agenda.c": 'static const char *write __attribute__((used)) = "DELETE FROM @.op_due";\n',
         "src/sql/10_status.sql": "-- DELETE FROM op_due\nDELETE FROM op_nudge;\n",
         "src/sql/80_maintenance.sql": "DELETE FROM op_attempt;\n"},
        ["src/store/agenda.c writes op_due by a statement", "10_status.sql writes op_nudge by a statement"]),
    "a version asked for elsewhere": (
        {"src/worker/turn.c": "#if PG_VERSION_NUM >= 160000\n#endif\n"},
        ["src/worker/turn.c asks for a version, as only compat.h may"]),
    "PostgreSQL in the rules": (
        {"src/rules/state.c": '#include "base/text.h"\n'},
        [r'src/rules/state.c:\d+ is no plain C: #include "base/text.h"']),
    "memory in the rules": (
        {"src/rules/state.c": "#define GET malloc\n"},
        [r"src/rules/state.c:\d+ is no plain C: #define GET malloc"]),
    "a decision elsewhere": (
        {"src/worker/turn.c": "#define A OplDecision now = {0}\n#define B decision->after.state = 1\n"},
        [r"src/worker/turn.c:\d+ makes a decision, as only src/rules may: #define A OplDecision now = \{0\}",
         r"src/worker/turn.c:\d+ makes a decision, as only src/rules may: #define B decision->after.state = 1"]),
    "an install script that adopts": (
        {"src/sql/10_status.sql": "CREATE OR REPLACE VIEW op_all AS SELECT 1;\n"},
        ["10_status.sql would adopt objects of others: CREATE OR REPLACE VIEW op_all AS SELECT 1;"]),
}


def compile_(root, sources):
    for source in sources:
        subprocess.run(["gcc", "-c", "-fPIC", "-fvisibility=hidden", "-I", str(root / "src"),
                        '-DSHOWN=__attribute__((visibility("default")))',
                        "-o", str(source.with_suffix(".o")), str(source)], check=True)
    objects = map(str, root.glob("src/**/*.o"))
    subprocess.run(["gcc", "-shared", "-o", str(root / "op_ledger.so"), *objects], check=True)


def write(root, texts):
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(text)
    return [root / name for name in texts if name.endswith(".c")]


def broken(good, name, changes, expected, exceptions=()):
    """0, or 1 and a word about it, when lint does not say what is expected."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "tree"
        shutil.copytree(good, root)
        compile_(root, write(root, changes))
        found = list(lint.faults(lint.Tree(root, root), exceptions))
    if len(found) == len(expected) and all(any(re.fullmatch(e, f) or e == f for f in found) for e in expected):
        return 0
    print(f"lint of lint: {name}\n  expected", *expected, "  found", *found, sep="\n    ")
    return 1


def main():
    with tempfile.TemporaryDirectory() as folder:
        good = Path(folder)
        compile_(good, write(good, TREE))
        wrong = broken(good, "the tree as it is", {}, [])
        for name, (changes, expected) in CASES.items():
            wrong += broken(good, name, changes, expected)
        changes, expected = CASES["an extern without a declaration"]
        wrong += broken(good, "a fault that is known", changes, [], [expected[0].replace("turn_secret", r"\w+")])
        wrong += broken(good, "an exception without a fault", {},
                        ["an exception is not needed any more: nothing"], ["nothing"])
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
