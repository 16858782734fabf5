"""Shell text as commands: conditions, branches, loops, assignments, heredocs. Nothing is run.

The grammar's tree is walked (tree.py), words are read by words.py, branches are brought together by branches.py. All
commands are read, those of a branch that is not taken as well: a script that starts other servers in other modes holds
them all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from advisor.checks.read.launch import Env
from advisor.checks.read.shell.branches import (
    GATES,
    HOLDS,
    LABEL,
    OF_TEST,
    Branches,
    Status,
    Variables,
    evaluate_test,
    is_test,
    matches_pattern,
)
from advisor.checks.read.shell.tree import MAX_SOURCE, list_leaves, parse_shell
from advisor.checks.read.shell.words import (
    NAME,
    JoinedText,
    LoopWords,
    ShellValue,
    WordReader,
    drop_front,
    join_parts,
    join_pieces,
)
from advisor.errors import Unread
from advisor.record import Value
from advisor.unknowns import any_holds
from advisor.yaml_places import Strings, Text, TextList, Texts, make_text

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_WORDS = 60_000  # and statements
MAX_COPIED = 1_000_000  # variables that branches copy, in all
MAX_DEEP = 60  # statements inside statements
COPIED_ITEMS = 1_000  # items of an array that are appended to count as one word
MAX_CALLS = 2_000  # of a script's own functions
MAX_CALLS_DEEP = 8
ASSIGN = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
DECLARES = frozenset(["export", "declare", "local", "readonly", "typeset"])
_KEYWORDS = frozenset([*"{}!", "time", "do", "done", "then", "else", "elif", "fi", "esac", "if", "while", "until"])
_SIGNS = re.compile(r"[*?\[]")
_REDIRECTS = frozenset(["file_redirect", "heredoc_redirect", "herestring_redirect"])
_NO_WORDS = frozenset([*_REDIRECTS, "comment", "heredoc_start", "heredoc_body", "heredoc_end", "file_descriptor"])


class ShellFunction(Value, frozen=True):
    """The body of a function, and which of the commands were found in it where it is defined."""

    body: Node
    read: tuple[int, int]


class ShellCommand(Value, frozen=True):
    """One simple command: its words, what is assigned for it, what was exported before it, its heredoc. `unread`: text
    that is no command the grammar knows; it may hold anything."""

    words: tuple[Text, ...]
    env: Env
    exported: Env
    heredoc: Text | None
    line: int
    unread: str = ""


def split_commands(
    source: str,
    line: int = 1,
    column: int = 0,
    known: Strings | None = None,
    positional: Texts | None = None,
) -> list[ShellCommand]:
    """The simple commands of a shell text, in order. `known` are variables that are set before it, `positional` what
    `$1` and `$@` stand for (None = not known). Raises Unread, with what was found, for a text that is too long."""
    variables: dict[str, ShellValue] = {k: v if isinstance(v, Text) else Text(v) for k, v in (known or {}).items()}
    if positional is not None:
        variables["@"] = tuple(positional)
    text = source.replace("\r\n", "\n")
    short = text if len(text) <= MAX_SOURCE else text[: text.rfind("\n", 0, MAX_SOURCE) + 1]
    reader = _ShellReader(short, line, column, variables)
    try:
        root = parse_shell(short, line)
        reader.run_all(root.children)
        reader.note_rest(root)
        if short != text:
            raise Unread(f"it has more than {MAX_SOURCE:,} characters", reader.line)
    except Unread as e:
        e.found = reader.list_found()
        raise
    return reader.list_found()


def split_words(source: str, line: int = 1, column: int = 0, known: Strings | None = None) -> TextList:
    """All words of a text that is one command (a compose `command:`, a `cmd:`). What cannot be read stays as one that
    is not known."""
    found = split_commands(source.replace("\n", " "), line, column, known)
    return [w for c in found for w in (c.words or [make_text(c.unread, c.line, 0, (c.unread,))] * bool(c.unread))]


class _ShellReader(WordReader):
    """The commands that were found, and what holds where the tree is walked."""

    def __init__(self, source: str, line: int, column: int, variables: dict[str, ShellValue]) -> None:
        super().__init__(source, line, column, variables)
        self.exported: dict[str, None] = {}
        self.out: list[ShellCommand] = []
        self.total = 0  # words and statements
        self.copied = 0
        self.deep = 0
        self.ended = False  # this branch, by `exit`, `return` or `exec`: nothing behind it sees its variables
        self.functions: dict[str, ShellFunction] = {}
        self.called: set[str] = set()
        self.locals: set[str] = set()
        self.calls = 0
        self.inside: tuple[str, ...] = ()  # functions that are carried out
        self.noted: set[int] = set()  # ERROR nodes
        self.behind: dict[int, Sequence[Node]] = {}  # redirections of a command, with words that belong to it
        self.statements: dict[str, Callable[[Node], Status | None]] = {
            "command": self._command, "declaration_command": self._command, "unset_command": self._command,
            "variable_assignment": self._assignment, "variable_assignments": self._group,
            "redirected_statement": self._redirected, "test_command": self._test, "negated_command": self._negated,
            "list": self._list, "pipeline": self._pipeline, "subshell": self._subshell,
            "compound_statement": self._group, "do_group": self._group, "while_statement": self._group,
            "c_style_for_statement": self._count_loop, "if_statement": self._if, "case_statement": self._case,
            "for_statement": self._for, "function_definition": self._function, "ERROR": self._error,
        }  # fmt: skip

    def list_found(self) -> list[ShellCommand]:
        """All commands, those of a function where it is called rather than where it is defined."""
        unread = [f.read for name, f in self.functions.items() if name in self.called]
        return [c for i, c in enumerate(self.out) if not any(first <= i < last for first, last in unread)]

    def _count(self, words: int) -> None:
        self.total += words
        if self.total >= MAX_WORDS:
            raise Unread(f"it has more than {MAX_WORDS:,} words", self.line)

    # ---- statements

    def run_all(self, nodes: Sequence[Node]) -> Status:
        """Reads statements one after the other; what the last one comes to."""
        status = Status.RAN
        for node in nodes:
            if node.type in self.statements:
                status = self.run(node)
        return status

    def run(self, node: Node) -> Status:
        """Reads one statement; what it comes to."""
        self.place(node)
        self._count(1)
        self.deep += 1
        if self.deep > MAX_DEEP:
            raise Unread("statements stand in each other there, too deep", self.line)
        status = self.statements[node.type](node)
        self.deep -= 1
        unread, self.unread = self.unread, []
        for part in unread:
            self._note_unread(part)
        return status or Status.RAN

    def note_rest(self, root: Node) -> None:
        """Notes each ERROR that nothing above came by. What a substitution says is not known in any case."""
        stack = [root]
        while stack:
            node = stack.pop()
            if node.type == "ERROR" and node.id not in self.noted:
                self._note_unread(node)
            elif node.has_error and not node.type.endswith("_substitution"):
                stack += node.children

    def _note_unread(self, node: Node) -> None:
        text = self._text(node)
        self.noted.add(node.id)
        for m in ASSIGN.finditer(text):
            self.vars[m[1]] = make_text("${" + m[1] + "}", self.line, 0, (m[1],))
        self.out.append(ShellCommand((), {}, {}, None, self.place(node)[0], text))

    def _error(self, node: Node) -> None:
        """What the grammar cannot read: the statements in it as if they stood under a condition, words as a command."""
        self._note_unread(node)
        branches = Branches(self.vars)
        self._branch(branches, None, "what stands around it is not read", node.children)
        self.vars = branches.merge()
        words = [
            x for x in self._arguments(node.children) if x.type not in self.statements and x.end_byte > x.start_byte
        ]
        self._simple(self.read_words(words), {}, None)

    def _group(self, node: Node) -> Status | None:
        if node.children[0].type == "((":
            return self._test(node)
        self.run_all(node.children)
        return None

    def _apart(self, nodes: Sequence[Node]) -> Status:
        """What is read with variables of its own: a function's body, `( ... )`, a part of a pipeline."""
        kept, ended = self.vars, self.ended
        self.vars = self._copy(kept)
        status = self.run_all(nodes)
        self.vars, self.ended = kept, ended
        return status

    def _subshell(self, node: Node) -> None:
        self._apart(node.children)

    def _pipeline(self, node: Node) -> Status:
        return [self._apart([part]) for part in node.children][-1]

    def _branch(self, branches: Branches, holds: bool | None, label: str, nodes: Sequence[Node]) -> None:
        taken = branches.choose(holds)
        kept, self.ended = self.ended, False
        self.vars = self._copy(branches.before)
        self.run_all(nodes)
        branches.keep(self.vars, taken, self.ended, " ".join(label.split())[:LABEL])
        self.vars, self.ended = branches.before, kept

    def _copy(self, variables: Variables) -> Variables:
        self.copied += len(variables) + sum(len(v) for v in variables.values() if isinstance(v, tuple))
        if self.copied > MAX_COPIED:
            raise Unread("its branches have too many variables", self.line)
        return dict(variables)

    def _if(self, node: Node) -> None:
        branches, label = Branches(self.vars), ""
        clauses = [x for x in node.children if x.type in ("elif_clause", "else_clause")]
        for clause in (node, *clauses):
            parts = [x for x in clause.children if x.type not in ("elif_clause", "else_clause")]
            then = next((i for i, x in enumerate(parts) if x.type == "then"), 0)
            if not then:
                self._branch(branches, True, f"else of {label}", parts)
                continue
            holds = HOLDS[self.run_all(parts[:then])]
            branches.before = self.vars
            condition = self.s[clause.children[1].start_byte : parts[then].start_byte].strip().rstrip(";")
            self._branch(branches, holds, f"if {condition}", parts[then:])
            label = label or f"if {condition}"
        self.vars = branches.merge()

    def _case(self, node: Node) -> None:
        branches, subject = Branches(self.vars), self._one_word(node.children[1])
        for item in node.children:
            if item.type == "case_item":
                end = next((i for i, x in enumerate(item.children) if x.type == ")"), 0)
                patterns = [self._one_word(x, pattern=True) for x in item.children[:end] if x.is_named]
                holds = any_holds([matches_pattern(subject, x) for x in patterns])
                label = f"case {self._text(node.children[1])} in {'|'.join(patterns)})"
                self._branch(branches, holds, label, item.children[end + 1 :])
        self.vars = branches.merge()

    def _list(self, node: Node) -> Status:
        behind: list[tuple[str, Node]] = []
        while node.type == "list":
            connector = next((x.type for x in node.children if x.type in GATES), "&&")
            behind.append((connector, node.children[-1]))
            node = node.children[0]
        status = self.run(node)
        for connector, right in reversed(behind):
            status = self._go_on(connector, status, right, self.s[node.start_byte : right.start_byte])
        return status

    def _go_on(self, connector: str, status: Status, right: Node, label: str) -> Status:
        """What a list comes to with one command more, which is read by what the list has come to before."""
        taken = GATES[connector][status]
        if taken:
            return self.run(right)
        branches = Branches(self.vars)
        self._branch(branches, taken, label, [right])
        self.vars = branches.merge()
        return status if taken is False else Status.OPEN

    def _negated(self, node: Node) -> Status:
        status = self.run_all(node.children)
        return {Status.YES: Status.NO, Status.NO: Status.YES}.get(status, Status.OPEN)

    def _for(self, node: Node) -> None:
        """One round stands for all: the loop's variable is all the words that it runs over."""
        name = next((self._text(x) for x in node.children if x.type == "variable_name"), "")
        body = [x for x in node.children if x.type in self.statements]
        after = [x for x in node.named_children if x.type not in (*self.statements, "variable_name", "comment")]
        words = self.read_words(after)
        self._count(len(words))
        self.vars.pop(name, None)
        if len(words) > 2:
            self.vars[name] = LoopWords(words)
        self.run_all(body)

    def _count_loop(self, node: Node) -> None:
        for x in node.children:
            if x.type == "variable_assignment":
                self.vars.pop(self._text(x.children[0]), None)
            elif x.type in self.statements:
                self.run(x)

    # ---- functions

    def _function(self, node: Node) -> None:
        body = node.child_by_field_name("body")
        if body is None or body.type not in self.statements:
            return
        first, given = len(self.out), self.vars.pop("@", None)
        self.in_function += 1
        self._apart([body])
        self.in_function -= 1
        if given is not None:
            self.vars["@"] = given
        name = node.child_by_field_name("name")
        self.functions[self._text(name) if name else ""] = ShellFunction(body, (first, len(self.out)))

    def _call(self, name: str, words: Texts) -> None:
        """A function of the script is called: its body, with words and local variables of its own."""
        if len(self.inside) >= MAX_CALLS_DEEP or self.calls >= MAX_CALLS:
            raise Unread("its functions call each other too often", self.line)
        self.calls += 1
        self.called.add(name)
        kept, before = (self.inside, self.locals, self.ended, self.in_function), dict(self.vars)
        self.inside, self.locals, self.in_function = (*self.inside, name), {"@"}, 0
        self.vars["@"] = tuple(words)
        self.run(self.functions[name].body)
        for local in self.locals:
            self.vars.pop(local, None)
            if local in before:
                self.vars[local] = before[local]
        self.inside, self.locals, self.ended, self.in_function = kept

    # ---- commands

    def _redirected(self, node: Node) -> Status:
        body = next((x for x in node.children if x.type in self.statements), None)
        redirects = [x for x in node.children if x.type in _REDIRECTS]
        last = body
        while last is not None and last.type in ("list", "pipeline", "negated_command"):
            last = last.children[-1]
        if last is not None:
            self.behind[last.id] = redirects
        status = self.run(body) if body is not None else Status.RAN
        if last is None or last.type != "command":
            self._simple([], {}, self._heredoc(redirects))
        for redirect in redirects:
            for i, x in enumerate(redirect.children):
                if x.type in self.statements:
                    before = redirect.children[i - 1].type
                    status = self._go_on(before, status, x, before) if before in GATES else self.run(x)
        return status

    def _heredoc(self, redirects: Sequence[Node]) -> Text | None:
        """The text of a heredoc, as it is written."""
        for x in redirects:
            ends = [y for y in x.children if y.type in ("heredoc_start", "heredoc_end")]
            if ends:
                begin = self.s.find("\n", ends[0].end_byte) + 1
                end = self.s.rfind("\n", 0, ends[-1].start_byte) + 1
                return make_text(self.s[begin : max(begin, end)], self.place(ends[0])[0] + 1)
        return None

    def _arguments(self, nodes: Sequence[Node]) -> Iterator[Node]:
        """The nodes that are words of a command; the grammar puts those behind a redirection into it."""
        for x in nodes:
            if x.type == "heredoc_redirect":
                yield from self._arguments([y for y in x.children if y.type not in self.statements])
            elif x.type in _REDIRECTS:
                named = [y for y in x.named_children if y.type != "file_descriptor"]
                yield from named[0 if any(y.type.endswith("&-") for y in x.children) else 1 :]
            elif x.type not in _NO_WORDS and x.is_named:
                touches = self.s[x.end_byte : x.end_byte + 1] in ("<", ">")
                if not (touches and self._text(x).isdigit()):  # `0<input`: a descriptor
                    yield x

    def _command(self, node: Node) -> Status:
        behind = self.behind.get(node.id, ())
        own: Env = {}
        words: TextList = []
        if node.type != "command":  # its keyword
            words.append(make_text(self._text(node.children[0]), *self.place(node)))
        parts = list(self._arguments([*node.children, *behind]))
        for x in parts:
            if x.type == "variable_assignment":
                self._assign(x, own)
        words += self.read_words(x for x in parts if x.type != "variable_assignment")
        self._count(len(words))
        while words and words[0] in _KEYWORDS:  # those that stand there where the grammar lost its way
            words = words[2 if words[1:2] == ["-p"] else 1 :]
        self.place(node)
        if words and words[0] in DECLARES:
            self._declare(words, own)
        else:
            self._simple(words, own, self._heredoc(behind))
        if words and (words[0] in ("exit", "return") or (words[0] == "exec" and len(words) > 1)):
            self.ended = True
        return OF_TEST[evaluate_test(words)] if is_test(words) else Status.RAN

    def _declare(self, words: Texts, own: Env) -> None:
        names = [w for w in words[1:] if not w.startswith("-")]
        for word in names:
            if m := ASSIGN.match(word):
                own[m[1]] = drop_front(word, m.end())
        self.vars.update(own)
        named = [*own, *(str(w) for w in names if NAME.fullmatch(w))]
        if words[0] == "export":
            self.exported |= dict.fromkeys(named)
        elif words[0] != "readonly":
            self.locals |= set(named)

    def _assignment(self, node: Node) -> None:
        own: Env = {}
        self._assign(node, own)
        self.vars.update(own)

    def _assign(self, node: Node, own: Env) -> None:
        """`NAME=value` puts it among `own`; an array is set at once."""
        left, sign, *value = node.children
        name, before = self._text(left), self.vars.get(self._text(left))
        if value and value[0].type == "array":
            words = self.read_words(x for x in value[0].named_children if x.type != "comment")
            head = before if isinstance(before, tuple) else (before,) if before else ()
            self._count(len(words) + (len(head) // COPIED_ITEMS if sign.type == "+=" else 0))
            self.vars[name] = (*(head if sign.type == "+=" else ()), *words)[:MAX_WORDS]
        elif left.type == "variable_name":
            made = self._one_word(value[0]) if value else make_text("")
            if sign.type == "+=" and isinstance(before, Text):
                made = join_parts([*(before.parts if isinstance(before, JoinedText) else (before,)), made])
            made.line, made.column = self.place(node)
            own[name] = made

    def _one_word(self, node: Node, pattern: bool = False) -> Text:
        """A word that is never split: a value, what a `case` looks at, a part of `[[ ]]`. In quotes no sign is a
        pattern's."""
        pieces = self.pieces(node)
        if pattern:
            pieces = [replace(p, value=_SIGNS.sub(r"[\g<0>]", p.value)) if p.quoted else p for p in pieces]
        made = join_pieces(pieces)
        made.line, made.column = self.place(node)
        return made

    def _test(self, node: Node) -> Status:
        words: TextList = []
        for x in list_leaves(node):
            if node.children[0].type == "((" and NAME.fullmatch(self._text(x)):
                value = self.vars.get(self._text(x))
                words.append(value if isinstance(value, Text) else make_text(self._text(x)))
            elif node.children[0].type == "[":
                words += self.read_words([x])
            else:
                words.append(self._one_word(x, pattern=words[-1:] in (["=="], ["="], ["!="])))
        return OF_TEST[evaluate_test(words)]

    def _simple(self, words: Texts, own: Env, heredoc: Text | None) -> None:
        """A command with the variables that are set for it; one that changes the script's own is carried out."""
        if not words:
            self.vars.update(own)
        elif str(words[0]) in self.functions and str(words[0]) not in self.inside:
            kept = {k: self.vars.get(k) for k in own}
            self.vars.update(own)
            self._call(str(words[0]), words[1:])
            self.vars.update({k: v for k, v in kept.items() if v is not None})
            for k in [k for k, v in kept.items() if v is None]:
                self.vars.pop(k, None)
            return
        if words or heredoc is not None:
            exports = {k: v for k in self.exported if isinstance(v := self.vars.get(k), Text)}
            line = words[0].line if words else self.line
            self._carry_out(words)
            self.out.append(ShellCommand(tuple(words), own if words else {}, exports, heredoc, line))

    def _carry_out(self, words: Texts) -> None:
        """`set`, `shift`, `read` and `unset` change variables."""
        name, rest, given = str(words[0]) if words else "", words[1:], self.vars.get("@")
        if name == "set" and "--" in rest[:2]:
            self.vars["@"] = tuple(rest[list(rest).index(make_text("--")) + 1 :])
        elif name == "shift" and isinstance(given, tuple):
            count = rest[0] if rest else "1"
            self.vars["@"] = given[int(count) if count.isdecimal() and len(count) < 4 else len(given) :]
        for word in rest if name in ("read", "unset") else ():
            if NAME.fullmatch(word) and name == "read":
                self.vars[str(word)] = make_text(f"$({word})", word.line, 0, (f"$({word})",))
            elif NAME.fullmatch(word):
                self.vars[str(word)] = make_text("")
                self.exported.pop(str(word), None)
