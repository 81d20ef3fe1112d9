#!/usr/bin/env python3
"""Makes a copy of the rules that can be asked where it came through, and in which any
one point can be changed.

    probe.py DIRECTORY      from src/rules: DIRECTORY/*.c and points.h

Points are made by rule, not picked. In each function of each file

    comparison  < <= > >= == !=   takes its end in or leaves it out, and is turned round
    condition   is true, is false, is the opposite; && becomes ||; one side is dropped
    term        a + b, a - b, a * b: one side is dropped, the sign is turned
    constant    of an enum becomes each other one; a number one more and one less;
                OPL_NEVER becomes a moment; a reason another one
    call        goes to each function with the same arguments, or is one of its arguments
    statement   is dropped
    case        is dropped: what it stood for takes the way of all others
    arrow       of state.c is there or not; the words of a state are others

The copy does what the file does while `opl_mutant` is 0. A point is named by its
function and what it changes, so that it keeps its name while lines move.
"""
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SRC = os.path.join(HERE, "..", "..", "src")
FILES = ("decide.c", "state.c")

TOKEN = re.compile(r"""
    (?P<space>\s+ | /\*.*?\*/ | //[^\n]*)
  | (?P<directive>\#(?:[^\n\\]|\\.)*)
  | (?P<string>"(?:[^"\\]|\\.)*")
  | (?P<number>\d[\w.]*)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<sign>->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%&|^~!<>=?:;,.(){}\[\]])
""", re.X | re.S)

BINARY = {"*": 10, "/": 10, "%": 10, "+": 9, "-": 9, "<<": 8, ">>": 8, "<": 7, "<=": 7,
          ">": 7, ">=": 7, "==": 6, "!=": 6, "&": 5, "^": 4, "|": 3, "&&": 2, "||": 1}
COMPARISONS = {"<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<"),
               "==": ("!=",), "!=": ("==",)}
ASSIGNMENTS = ("=", "+=", "-=", "*=", "/=", "|=", "&=", "^=")
PLAIN_TYPES = {"void", "bool", "char", "int", "unsigned", "double", "const", "static",
               "struct", "Case", "Passage"}


class Mistake(Exception):
    pass


class Token:
    def __init__(self, kind, text, at):
        self.kind, self.text, self.at = kind, text, at
        self.end = at + len(text)


def tokens(text):
    found, at = [], 0
    while at < len(text):
        m = TOKEN.match(text, at)
        if not m:
            raise Mistake(f"what is {text[at:at + 20]!r}?")
        if m.lastgroup != "space":
            found.append(Token(m.lastgroup, m.group(), at))
        at = m.end()
    return found


def is_type(name):
    return name in PLAIN_TYPES or re.fullmatch(r"Opl[A-Z]\w*", name) is not None


class Function:
    def __init__(self, name, returns, types, names):
        self.name, self.returns, self.types, self.names = name, returns, types, names

    def alike(self, other):
        return (self.returns, self.types) == (other.returns, other.types)


def enums():
    """Each constant of an enum -> all of them."""
    known = {}
    text = subprocess.run(["cc", "-E", "-P", "-I" + SRC, os.path.join(SRC, "rules", "decide.h")],
                          check=True, capture_output=True, text=True).stdout
    with open(os.path.join(SRC, "rules", "decide.c"), encoding="utf-8") as f:
        text += re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
    for body in re.findall(r"typedef enum \w+\s*\{(.*?)\}", text, re.S):
        names = [n for n in re.findall(r"\w+", body) if not n.endswith("_COUNT")]
        if "X" not in names:
            known.update((n, names) for n in names)
    return known


class Node:
    """An expression: where it stands, what it is made of."""

    def __init__(self, kind, start, end, kids=(), sign="", name=""):
        self.kind, self.start, self.end = kind, start, end
        self.kids, self.sign, self.name = list(kids), sign, name
        self.condition = kind in ("compare", "logic", "not")
        self.changes = []  # what it may become, as text of the file
        self.skip = set()


class Parser:
    """One file: its functions, their statements and expressions."""

    def __init__(self, file, constants):
        self.file, self.constants = file, constants
        with open(os.path.join(SRC, "rules", file), encoding="utf-8") as f:
            self.text = f.read()
        self.tokens = [t for t in tokens(self.text) if t.kind != "directive"]
        self.macros = set(re.findall(r"^#define (\w+) ", self.text, re.M))
        self.functions = {}
        self.bodies = []
        self.heads = []
        self.find_functions()
        self.at = 0
        self.function = None
        self.edits = []       # (start, end, text): of the copy
        self.points = []      # (function, old, new) of mutant 1, 2, ...
        self.branches = []    # (function, what) of branch 0, 1, ...
        self.base = 0

    # ------------------------------------------------------------- the file

    def find_functions(self):
        depth, begun, i = 0, 0, 0
        while i < len(self.tokens):
            t = self.tokens[i].text
            if t == "{" and depth == 0 and self.tokens[i - 1].text == ")":
                self.add_function(self.tokens[begun:i], i)
            depth += (t == "{") - (t == "}")
            i += 1
            if depth == 0 and t in ";}":
                begun = i

    def add_function(self, head, body):
        opening = next(i for i, t in enumerate(head) if t.text == "(")
        name = head[opening - 1].text
        returns = " ".join(t.text for t in head[:opening - 1] if t.text not in ("static", "extern"))
        types, names, part = [], [], []
        for t in head[opening + 1:]:
            if t.text in ",)":
                if len(part) > 1:
                    types.append(" ".join(part[:-1]))
                    names.append(part[-1])
                part = []
            else:
                part.append(t.text)
        self.functions[name] = Function(name, returns, types, names)
        self.bodies.append((name, body))
        self.heads.append((head[0].at, self.text[head[0].at:head[-1].end]))

    def only_asserts(self, name):
        """What it does is no rule, but a check of rules."""
        body = next((i for n, i in self.bodies if n == name), None)
        return body is not None and self.tokens[body + 1].text == "OPL_ASSERT"

    def parse(self):
        for name, body in self.bodies:
            self.function, self.at = self.functions[name], body
            self.block()

    # ------------------------------------------------------------ the tokens

    @property
    def now(self):
        return self.tokens[self.at]

    def peek(self, n=1):
        return self.tokens[self.at + n].text

    def is_next(self, *texts):
        return self.now.text in texts and self.now.kind != "string"

    def take(self, text=None):
        t = self.now
        if text is not None and t.text != text:
            line = self.text.count("\n", 0, t.at) + 1
            raise Mistake(f"{self.file}:{line}: {text!r} expected, there is {t.text!r}")
        self.at += 1
        return t

    def take_if(self, text):
        if self.is_next(text):
            self.at += 1
            return True
        return False

    def source(self, node):
        return self.text[node.start:node.end]

    # -------------------------------------------------------- the statements

    def block(self):
        self.take("{")
        while not self.is_next("}"):
            self.statement()
        self.take("}")

    def condition(self):
        self.take("(")
        node = self.expression()
        self.take(")")
        self.asked(node)
        self.finish(node)

    def statement(self):
        word = self.now.text
        if word == "{":
            self.block()
        elif word == "if":
            self.take()
            self.condition()
            self.statement()
            if self.take_if("else"):
                self.statement()
        elif word == "while":
            self.take()
            self.condition()
            self.statement()
        elif word == "for":
            self.for_loop()
        elif word == "switch":
            self.switch()
        elif word in ("break", "continue"):
            self.take()
            self.take(";")
        elif word == "return":
            self.take()
            if not self.is_next(";"):
                node = self.expression()
                if self.function.returns == "bool":
                    self.asked(node)
                self.finish(node)
            self.take(";")
        elif self.declares():
            self.declaration()
        elif word == "OPL_ASSERT" or (self.now.kind == "name" and self.only_asserts(word)):
            while not self.take_if(";"):
                self.take()
        else:
            node = self.expression()
            self.finish(node, dropped=True)
            self.take(";")

    def for_loop(self):
        self.take("for")
        self.take("(")
        if self.declares():
            self.declaration()
        else:
            self.finish(self.expression())
            self.take(";")
        node = self.expression()
        self.asked(node)
        self.finish(node)
        self.take(";")
        self.expression()  # a loop without it would not end
        self.take(")")
        self.statement()

    def switch(self):
        self.take("switch")
        self.take("(")
        node = self.expression()
        closing = self.take(")")
        labels, depth, i = [], 0, self.at
        while True:
            t = self.tokens[i].text
            depth += (t == "{") - (t == "}")
            if depth == 0:
                break
            if t == "case" and depth == 1:
                labels.append(self.tokens[i + 1].text)
            i += 1
        what = self.source(node)
        ways = "".join(f"way_ == {l} ? {self.branch(f'{what} is {l}')} : " for l in labels)
        ways += str(self.branch(f"{what} is another"))
        drops = "".join(f"opl_mutant == {self.point(f'case {l}:', '')} && way_ == {l} || "
                        for l in labels)
        self.render(node)
        self.edits.append((node.start, node.start, "({ int way_ = (int) ("))
        self.edits.append((closing.at, closing.at,
                           f"); opl_branches[{ways}] = 1; {drops} 0 ? 9999 : way_; }})"))
        self.take("{")
        while not self.is_next("}"):
            if self.take_if("case"):
                while not self.take_if(":"):
                    self.take()
            elif self.take_if("default"):
                self.take(":")
            else:
                self.statement()
        self.take("}")

    def declares(self):
        if self.now.kind != "name" or not is_type(self.now.text):
            return False
        i = self.at
        while self.tokens[i].kind == "name" and is_type(self.tokens[i].text):
            i += 1
        while self.tokens[i].text == "*":
            i += 1
        return self.tokens[i].kind == "name" and self.tokens[i + 1].text in "=;,["

    def declaration(self):
        kind = []
        while is_type(self.now.text):
            kind.append(self.take().text)
        while True:
            while self.take_if("*"):
                kind.append("*")
            self.take()
            if self.take_if("="):
                if self.is_next("{"):
                    self.braces()
                else:
                    node = self.expression(1)
                    if kind == ["bool"]:
                        self.asked(node)
                    self.finish(node)
            if not self.take_if(","):
                break
        self.take(";")

    def braces(self):
        self.take("{")
        while not self.is_next("}"):
            if self.is_next("."):
                self.take()
                self.take()
                self.take("=")
            if self.is_next("{"):
                self.braces()
            else:
                self.finish(self.expression(1))
            self.take_if(",")
        self.take("}")

    # ------------------------------------------------------- the expressions

    def expression(self, lowest=0):
        node = self.ternary()
        if self.now.text in ASSIGNMENTS and self.now.kind == "sign":
            sign = self.take().text
            right = self.expression(1)
            node = Node("assign", node.start, right.end, [node, right], sign)
        if lowest == 0 and self.is_next(","):
            raise Mistake(f"{self.file}: a comma in {self.function.name}")
        return node

    def ternary(self):
        node = self.binary(1)
        if self.take_if("?"):
            yes = self.expression(1)
            self.take(":")
            no = self.expression(1)
            self.asked(node)
            node = Node("ternary", node.start, no.end, [node, yes, no])
        return node

    def binary(self, lowest):
        left = self.unary()
        while self.now.kind == "sign" and BINARY.get(self.now.text, 0) >= lowest:
            sign = self.take().text
            right = self.binary(BINARY[sign] + 1)
            kind = "compare" if sign in COMPARISONS else \
                "logic" if sign in ("&&", "||") else "sum"
            left = Node(kind, left.start, right.end, [left, right], sign)
            if kind == "logic":
                for kid in left.kids:
                    self.asked(kid)
                    kid.skip.add("false" if sign == "&&" else "true")
        return left

    def is_cast(self):
        if not self.is_next("(") or not is_type(self.peek()):
            return False
        i = self.at + 1
        while is_type(self.tokens[i].text) or self.tokens[i].text == "*":
            i += 1
        return self.tokens[i].text == ")"

    def unary(self):
        start = self.now.at
        if self.is_cast():
            while not self.take_if(")"):
                self.take()
            kid = self.unary()
            return Node("cast", start, kid.end, [kid])
        if self.is_next("!", "-", "&", "*", "++", "--", "~"):
            sign = self.take().text
            kid = self.unary()
            if sign == "!":
                self.asked(kid)
            return Node("not" if sign == "!" else "unary", start, kid.end, [kid], sign)
        return self.postfix()

    def postfix(self):
        t = self.take()
        if t.text == "(":
            kid = self.expression()
            node = Node("paren", t.at, self.take(")").end, [kid])
            node.condition = kid.condition
        elif t.kind in ("number", "string", "name"):
            node = Node(t.kind, t.at, t.end, name=t.text)
        else:
            line = self.text.count("\n", 0, t.at) + 1
            raise Mistake(f"{self.file}:{line}: what is {t.text!r}?")
        while True:
            if self.take_if("("):
                arguments = []
                while not self.is_next(")"):
                    arguments.append(self.expression(1))
                    self.take_if(",")
                node = Node("call", node.start, self.take(")").end, arguments, name=node.name)
                known = self.functions.get(node.name)
                node.condition = bool(known) and known.returns == "bool"
            elif self.take_if("["):
                kid = self.expression()
                node = Node("index", node.start, self.take("]").end, [kid])
            elif self.is_next(".", "->"):
                self.take()
                name = self.take()
                node = Node("member", node.start, name.end, name=name.text)
            elif self.is_next("++", "--"):
                sign = self.take()
                node = Node("step", node.start, sign.end, [node], sign.text)
            else:
                return node

    def asked(self, node):
        """What it says is true or false."""
        node.condition = True
        if node.kind == "paren":
            self.asked(node.kids[0])

    # ------------------------------------------------------------ the points

    def point(self, old, new):
        self.points.append((self.function.name if self.function else "", " ".join(old.split()),
                            " ".join(new.split())))
        return self.base_point + len(self.points)

    def branch(self, what):
        self.branches.append((self.function.name, " ".join(what.split())))
        return self.base_branch + len(self.branches) - 1

    def changes(self, node, compared=False, word=False):
        """What the expression itself may become."""
        text = self.source(node)
        kids = [self.source(k) for k in node.kids]

        def joined(sign):
            def side(kid, right):
                low = BINARY.get(kid.sign, 99) if kid.kind in ("compare", "logic", "sum") else \
                    0 if kid.kind == "ternary" else 99
                text = self.source(kid)
                return f"({text})" if low < BINARY[sign] + right else text
            return f"{side(node.kids[0], 0)} {sign} {side(node.kids[1], 1)}"

        found = []
        if node.kind == "compare":
            found += [joined(sign) for sign in COMPARISONS[node.sign]]
        elif node.kind == "logic":
            found.append(joined("||" if node.sign == "&&" else "&&"))
        elif node.kind == "not":
            found.append(kids[0])
        elif node.kind == "sum" and node.sign in "+-*/":
            other = {"+": "-", "-": "+", "*": "/", "/": "*"}[node.sign]
            found += [joined(other), kids[0], kids[1]]
        elif node.kind == "step":
            found.append(kids[0] + ("--" if node.sign == "++" else "++"))
        elif node.kind == "call" and node.name in self.functions:
            called = self.functions[node.name]
            inside = text[text.index("("):]
            found += [other.name + inside for other in self.functions.values()
                      if other.name != node.name and other.alike(called)]
            found += [kids[i] for i, kind in enumerate(called.types)
                      if kind == called.returns and i < len(kids)]
        elif node.kind == "number" and node.name.isdigit():
            found += [str(n) for n in (int(node.name) + 1, int(node.name) - 1) if n >= 0]
        elif node.kind == "string":
            found.append('"mutant"')
        elif node.kind == "name" and node.name in ("true", "false"):
            found.append("false" if node.name == "true" else "true")
        elif node.kind == "name" and not compared:
            if node.name == "OPL_NEVER":
                found.append("(OplMoment) 0")
            elif node.name == "NULL" and word:
                found.append('"mutant"')
            elif node.name in self.constants:
                found += [n for n in self.constants[node.name] if n != node.name]
            elif node.name in self.macros:
                found += [f"({node.name} + 1)", f"({node.name} - 1)"]
        if node.condition and node.kind not in ("paren",) and text not in ("true", "false"):
            found += [v for v in ("true", "false") if v not in node.skip]
            if node.kind in ("member", "name", "call"):
                found.append(f"!{text}")
        return found

    def render(self, node, compared=False, word=False):
        """Writes the edits of an expression: before and after it, kids in between."""
        changes = self.changes(node, compared, word)
        if changes:
            first = None
            ways = ""
            for new in changes:
                number = self.point(self.source(node), new)
                first = first or number
                ways += f"opl_mutant == {number} ? ({new}) : "
            self.edits.append((node.start, node.start,
                               f"(OPL_HERE({first}, {number}) ? ({ways}({self.source(node)})) : ("))
        leaf = node.condition and node.kind not in ("paren", "logic", "not") and \
            self.source(node) not in ("true", "false")
        if leaf:
            number = self.branch(self.source(node) + " is false")
            self.branch(self.source(node) + " is true")
            self.edits.append((node.start, node.start, f"opl_saw({number}, ("))
        called = self.functions.get(node.name) if node.kind == "call" else None
        for i, kid in enumerate(node.kids):
            is_word = (called is not None and i < len(called.types) and
                       called.types[i] == "const char *") or \
                (word and node.kind == "ternary" and i > 0) or \
                (node.kind == "assign" and i == 1 and
                 self.source(node.kids[0]).endswith("reason"))
            if node.kind in ("assign", "step") and i == 0:
                continue  # it is written to
            if node.kind == "unary" and node.sign in "&*":
                continue
            self.render(kid, node.kind == "compare", is_word)
        if leaf:
            self.edits.append((node.end, node.end, ") != 0)"))
        if changes:
            self.edits.append((node.end, node.end, "))"))

    def finish(self, node, dropped=False):
        if dropped:
            number = self.point(self.source(node) + ";", "")
            self.edits.append((node.start, node.start, f"if (opl_mutant == {number}) ; else "))
        self.render(node)

    # ------------------------------------------------------------- the tables

    def table_points(self):
        """state.c holds tables: a function in the copy changes them."""
        if "arrows[" not in self.text:
            return ""
        states = self.constants["OPL_PENDING"]
        words = re.findall(r'X\((\w+), "\w+", "(\w+)", "(\w+)"\)', self.header("state.h"))
        lines = []
        for a in states:
            for b in states:
                if a != b:
                    number = self.point(f"arrow {a[4:]} -> {b[4:]}", "is the other way")
                    lines.append(f"if (opl_mutant == {number}) arrows[{a}] ^= 1u << {b};")
        for column, name in ((1, "effect"), (2, "next_action")):
            for state in words:
                for new in sorted({w[column] for w in words} - {state[column]}):
                    number = self.point(f"{name} of {state[0]}: {state[column]}", new)
                    lines.append(f"if (opl_mutant == {number}) "
                                 f"words[OPL_{state[0]}].{name} = \"{new}\";")
        return "\nvoid opl_mutate(void)\n{\n\t" + "\n\t".join(lines) + "\n}\n"

    def header(self, name):
        with open(os.path.join(SRC, "rules", name), encoding="utf-8") as f:
            return f.read()

    def copy(self):
        """The text with all edits; those at one place in the order they were made, but
        what closes goes from the inside out."""
        self.parse()
        self.function = None
        more = self.table_points()
        # Whoever is called in another's place may stand below.
        before = "".join(head + ";\n" for _, head in self.heads if "Passage" not in head)
        self.edits.insert(0, (self.heads[0][0], self.heads[0][0], before))
        opening = [e for e in self.edits if not e[2].startswith(")")]
        closing = [e for e in self.edits if e[2].startswith(")")]
        by_place = {}
        for start, _, text in opening:
            by_place.setdefault(start, ["", ""])[1] += text
        for start, _, text in closing:
            by_place.setdefault(start, ["", ""])[0] += text
        out, at = [], 0
        for place in sorted(by_place):
            out += [self.text[at:place], by_place[place][0], by_place[place][1]]
            at = place
        text = "".join(out) + self.text[at:]
        if more:
            text = re.sub(r"^static const (unsigned arrows|struct$)", r"static \1", text, flags=re.M)
        return '#include "probe.h"\n' + text + more


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def main():
    where = sys.argv[1]
    os.makedirs(where, exist_ok=True)
    constants = enums()
    points, branches = [], []
    for file in FILES:
        p = Parser(file, constants)
        p.base_point, p.base_branch = len(points), len(branches)
        text = p.copy()
        with open(os.path.join(where, file), "w", encoding="utf-8") as f:
            f.write(text)
        points += p.points
        branches += p.branches
    named = {}
    with open(os.path.join(where, "points.h"), "w", encoding="utf-8") as f:
        for kind, rows in (("POINTS", [(fn, f"{old} => {new or 'nothing'}") for fn, old, new in points]),
                           ("BRANCHES", branches)):
            f.write(f"#define OPL_{kind}(X) \\\n")
            for function, what in rows:
                name = f"{function}: {what}" if function else what
                named[kind, name] = named.get((kind, name), 0) + 1
                if named[kind, name] > 1:
                    name += f" #{named[kind, name]}"
                f.write(f"\tX({quoted(name)}) \\\n")
            f.write("\n")


main()
