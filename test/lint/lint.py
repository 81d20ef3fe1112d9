#!/usr/bin/env python3
"""The rules of the house that need more than grep: who may use whom.

    lint.py TREE BUILT

TREE has the sources, BUILT the same tree with its object files and op_ledger.so.
Who calls whom is read from the object files, as the linker sees it: macros,
function pointers and inline functions count like any other use.

Prints one line per fault; its exit status says whether there was any. selftest.py
breaks each rule once.
"""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

# A folder uses those to its left; worker and session are two wings that never meet.
ROOMS = ["base", "rules", "wire", "spec", "store", "worker", "session"]
WINGS = {"worker", "session"}

# Found by name from outside, besides SQL functions with their pg_finfo_.
ENTRY_POINTS = {"Pg_magic_func", "_PG_init", "op_ledger_launcher_main", "op_ledger_worker_main"}

# Private SQL functions that are there for people who write profiles.
SHOWN = {"_op_classify", "_op_decide"}

# What stands in one place only: pattern, its files, what it is.
ONE_PLACE = [
    (r"#\s*include <curl", {"transport.c"}, "includes curl"),
    (r"#\s*include <zlib", {"answer.c"}, "includes zlib"),
    (r"\bSPI_(connect|prepare|execute|cursor)", {"spi.c"}, "uses SPI"),
    (r"\b(ExecSimpleRelation|table_tuple_|index_rescan)", {"scanner.c"}, "uses the executor's functions for rows"),
    (r"#\s*if.*(PG_VERSION_NUM|LIBCURL_VERSION_NUM)", {"compat.h"}, "asks for a version"),
]

# A table has one file that reads and writes its rows.
KEEPERS = {
    "op_operation": "operation.c", "op_request": "request.c", "op_due": "agenda.c", "op_nudge": "agenda.c",
    "op_attempt": "attempt.c", "op_event": "event.c", "op_profile": "config.c", "op_provider": "config.c",
    "op_action": "config.c", "op_control": "home.c",
}
# These no statement writes, but for op_purge(): what a trigger sees is always the same.
HOT = {"op_operation", "op_request", "op_due", "op_nudge", "op_attempt"}
PURGES = "80_maintenance.sql"

# Faults that are known, as patterns. One that does not occur any more is a fault, too.
EXCEPTIONS = []


def code_of(text):
    """The text with comments gone and strings emptied; lines stay where they are."""

    def blank(match):
        token = match.group(0)
        if token.startswith('"'):
            return '""'
        return "''" if token.startswith("'") else " " + "\n" * token.count("\n")

    # What is included must stay readable.
    kept = re.sub(r'(#\s*include )"([^"\n]*)"', r"\1<<\2>>", text)
    kept = re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, kept, flags=re.S)
    return re.sub(r"<<([^>\n]*)>>", r'"\1"', kept)


class File:
    def __init__(self, tree, path):
        self.path = path
        self.shown = str(path.relative_to(tree.root))
        self.unit = path.stem
        self.room = path.parent.name
        self.text = path.read_text()
        self.code = code_of(self.text)

    def includes(self, tree):
        """Those of our own headers that are included here."""
        for name in re.findall(r'#\s*include "([^"]+)"', self.code):
            for folder in (self.path.parent, tree.src):
                if (folder / name).exists():
                    yield tree.by_path[(folder / name).resolve()]
                    break

    def declared(self):
        """Names that are declared extern here."""
        names = set()
        code = re.sub(r"^[ \t]*#(?:.*\\\n)*.*", "", self.code, flags=re.M)
        for declaration in re.findall(r"\bextern\b([^;{]*);", code):
            pointer = re.search(r"\(\s*\*\s*(\w+)\s*\)\s*\(", declaration)
            if pointer:
                names.add(pointer.group(1))
                continue
            head = re.sub(r"\bpg_attribute_\w+\s*\([^)]*\)|__attribute__\s*\(\(.*?\)\)", "", declaration)
            words = re.findall(r"\w+", head.split("(")[0].split("[")[0])
            if words:
                names.add(words[-1])
        return names


class Tree:
    def __init__(self, root, built):
        self.root = Path(root).resolve()
        self.src = self.root / "src"
        paths = [p for folder in ["."] + ROOMS for p in sorted((self.src / folder).glob("*.[ch]"))]
        self.files = [File(self, p) for p in paths]
        self.by_path = {f.path: f for f in self.files}
        self.sources = [f for f in self.files if f.path.suffix == ".c"]
        self.headers = {(f.room, f.unit): f for f in self.files if f.path.suffix == ".h"}
        self.room = {f.unit: f.room for f in self.files}
        self.defined, self.undefined = {}, {}
        for f in self.sources:
            symbols = nm("-g", (Path(built) / f.shown).with_suffix(".o"))
            self.defined[f.unit] = {n for n, kind in symbols if kind not in "Uw"}
            self.undefined[f.unit] = {n for n, kind in symbols if kind in "Uw"}
        self.exported = {n for n, kind in nm("-D", Path(built) / "op_ledger.so") if kind not in "Uw"}
        self.sql = {p: p.read_text() for p in sorted((self.src / "sql").glob("*.sql"))}

    def externs(self, unit):
        """What other files could call; SQL functions and _PG_init() are called by name."""
        names = self.defined[unit] - {"_PG_init", "Pg_magic_func"}
        return {n for n in names if not n.startswith("pg_finfo_") and "pg_finfo_" + n not in names}


def nm(option, path):
    out = subprocess.run(["nm", option, "-P", str(path)], capture_output=True, text=True, check=True).stdout
    return [(words[0], words[1]) for words in map(str.split, out.splitlines())]


# ------------------------------------------------------------------- the rules


def uses(tree):
    """(user, used) -> how: "includes x.h" and "calls y()"."""
    edges = defaultdict(list)
    for f in tree.files:
        for header in f.includes(tree):
            if header.unit != f.unit:
                edges[f.unit, header.unit].append(f"includes {header.unit}.h")
    owner = {name: unit for unit in tree.defined for name in tree.defined[unit]}
    for unit, names in tree.undefined.items():
        for name in sorted(names):
            if name in owner:
                edges[unit, owner[name]].append(f"uses {name}")
    return edges


def may_use(room, other):
    if room == other or room == "src":  # src/op_ledger.c starts everything
        return True
    if other == "src":
        return False
    return ROOMS.index(other) < ROOMS.index(room) and not {room, other} <= WINGS


def rooms(tree):
    """A folder uses those to its left, by includes and by calls."""
    for (user, used), how in sorted(uses(tree).items()):
        room, other = tree.room[user], tree.room[used]
        if not may_use(room, other):
            yield f"{room}/{user} {how[0]} of {other}/{used}: {room} may not use {other}"


def circles(tree):
    """No file uses itself through others, by includes or by calls."""
    edges = uses(tree)
    after = defaultdict(set)
    for user, used in edges:
        after[user].add(used)
    state, path = {}, []

    def walk(unit):
        state[unit] = "open"
        path.append(unit)
        for used in sorted(after[unit]):
            if state.get(used) == "open":
                ring = path[path.index(used):]
                first = ring.index(min(ring))
                ring = ring[first:] + ring[:first + 1]
                yield "circle: " + ", ".join(f"{a} {edges[a, b][-1]} of {b}" for a, b in zip(ring, ring[1:]))
            elif used not in state:
                yield from walk(used)
        path.pop()
        state[unit] = "done"

    for unit in sorted(tree.room):
        if unit not in state:
            yield from walk(unit)


def names_of_files(tree):
    """A name is one file and its header, in one folder."""
    folders = defaultdict(list)
    for f in tree.files:
        if f.room not in folders[f.unit]:
            folders[f.unit].append(f.room)
    for unit, found in folders.items():
        if len(found) > 1:
            yield f"there is a file {unit} in {' and in '.join(found)}"


def externs(tree):
    """A .c defines as extern what its own .h declares, and nothing else."""
    for f in tree.sources:
        header = tree.headers.get((f.room, f.unit))
        for name in sorted(tree.externs(f.unit) - (header.declared() if header else set())):
            yield f"{f.shown} defines {name}, which {f.unit}.h does not declare"


def declarations(tree):
    """What a header declares is defined in its own .c."""
    for f in tree.headers.values():
        for name in sorted(f.declared() - tree.defined.get(f.unit, set())):
            yield f"{f.shown} declares {name}, which {f.unit}.c does not define"
    for f in tree.sources:
        for name in sorted(f.declared() - ENTRY_POINTS):
            yield f"{f.shown} declares {name} itself: include the header"


def exported(tree):
    """The library shows what is found by name."""
    functions = {n for n in tree.exported if "pg_finfo_" + n in tree.exported}
    infos = {"pg_finfo_" + n for n in functions}
    for name in sorted(tree.exported - functions - infos - ENTRY_POINTS):
        yield f"op_ledger.so exports {name}"
    for name in sorted(ENTRY_POINTS - tree.exported):
        yield f"op_ledger.so does not export {name}"


def sql_functions(tree):
    """What the library shows to SQL is created there; what is private there is used there."""
    text = "\n".join(tree.sql.values())
    text = re.sub(r"^COMMENT ON .*?;$", "", re.sub(r"--.*", "", text), flags=re.M | re.S)
    text = re.sub(r"AS 'MODULE_PATHNAME', '\w+'", "AS 'MODULE_PATHNAME'", text)
    created = re.findall(r"^CREATE (?:FUNCTION|PROCEDURE) (\w+)", text, flags=re.M)
    for name in sorted({n for n in tree.exported if "pg_finfo_" + n in tree.exported} - set(created)):
        yield f"op_ledger.so has the SQL function {name}, which src/sql does not create"
    for name in sorted(set(created) - SHOWN):
        if name.startswith("_") and len(re.findall(rf"\b{name}\b", text)) < 2:
            yield f"src/sql creates {name} and never calls it: what tests need is in test/windows"


def one_place(tree):
    for pattern, places, what in ONE_PLACE:
        for f in tree.files:
            if f.path.name not in places and re.search(pattern, f.code):
                yield f"{f.shown} {what}, as only {', '.join(sorted(places))} may"


def one_writer(tree):
    """Only a table's own file names it, as a whole or in a statement that writes."""
    statement = r"\b(?:INSERT INTO|UPDATE|DELETE FROM) %s(op_\w+)"
    writes = statement % r"@\."  # in C; what is only said to people names no schema
    for f in tree.files:
        named = set(re.findall(r'"(op_\w+)"', f.text)) & set(KEEPERS)
        for table in sorted(named | set(re.findall(writes, f.text)) & set(KEEPERS)):
            if f.path.name != KEEPERS[table]:
                yield f"{f.shown} reads or writes {table}, as only {KEEPERS[table]} may"
        for table in sorted(set(re.findall(writes, f.text)) & HOT):
            yield f"{f.shown} writes {table} by a statement"
    for path, text in tree.sql.items():
        for table in sorted(set(re.findall(statement % "", re.sub(r"--.*", "", text))) & HOT):
            if path.name != PURGES:
                yield f"{path.name} writes {table} by a statement"


def plain_c(tree):
    """src/rules has no PostgreSQL in it: test/model links it without a server."""
    for f in tree.files:
        if f.room != "rules":
            continue
        for number, line in enumerate(f.code.splitlines(), 1):
            if re.search(r'#\s*include "(?!rules/)|\b(palloc|pstrdup|ereport|elog|malloc|Assert)\b', line):
                yield f"{f.shown}:{number} is no plain C: {line.strip()}"


def decisions(tree):
    """What follows is decided in rules, where script/prove walks: elsewhere it is carried out."""
    made = re.compile(
        r"OplDecision +[a-z_]+ += +\{"
        r"|\b(decision|born|sooner|later|d)(\.|->)(after|step|due_at|moved|pause|take_object|note_failed)(\.[a-z_]+)? = "
    )
    for f in tree.files:
        for number, line in enumerate(f.code.splitlines(), 1):
            if f.room != "rules" and made.search(line):
                yield f"{f.shown}:{number} makes a decision, as only src/rules may: {line.strip()}"


def install_script(tree):
    for path, text in tree.sql.items():
        for line in text.splitlines():
            if re.search(r"CREATE OR REPLACE|CREATE .*IF NOT EXISTS", line):
                yield f"{path.name} would adopt objects of others: {line.strip()}"


RULES = [names_of_files, rooms, circles, externs, declarations, exported, sql_functions, one_place, one_writer,
         plain_c, decisions, install_script]


def faults(tree, exceptions=()):
    needed = set()
    for fault in (fault for rule in RULES for fault in rule(tree)):
        known = [e for e in exceptions if re.fullmatch(e, fault)]
        needed.update(known)
        if not known:
            yield fault
    for exception in exceptions:
        if exception not in needed:
            yield f"an exception is not needed any more: {exception}"


def main():
    count = 0
    for fault in faults(Tree(sys.argv[1], sys.argv[2]), EXCEPTIONS):
        print("lint:", fault)
        count += 1
    return count > 0


if __name__ == "__main__":
    sys.exit(main())
