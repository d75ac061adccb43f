"""Collects the messages that the product can print from its code: the arguments of its errors, findings and warnings.

A placeholder shows as ``…``. A name is followed to the text that its function or module gives it, so that the index has
what a reader sees. What is nothing but another message's words (``str(error)``) has no entry of its own.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("plugins", "jobs", "dags")
GAP = "…"
MAX_TEXTS = 6  # of one argument with alternatives
MIN_LETTERS = 6  # fewer are no first words of anything
ROOT_ERRORS = {"TidegateError", "DecodingError", "IncompatibleColumn", "ArgumentTypeError"}
AIRFLOW_ERRORS = {"AirflowException", "AirflowFailException", "AirflowSkipException"}
LOG_CALLS = {"warning", "error", "exception"}
LOGGERS = {"log", "logger"}
# the number of the argument that is the message
FINDING_CALLS = {"make_error": 1, "make_warning": 1, "from_error": 1}
PROBLEM_CALLS = {"add": 1, "warn": 1, "add_broken": 1}
PROBLEM_LISTS, PROBLEM_MODULES = {"entry", "findings", "problems", "self"}, "plugins/tidegate/config/"
# a reason of a record, as a literal of Spark's SQL
REASON_CALL, REASON_MODULES = "render_literal", "jobs/tidegate_spark/"
# the product's messages end with the way out behind a semicolon, so a text of that form is one, whoever passes it on
SENTENCE_PATTERN = re.compile(r"[A-Za-z…)\]}'\"]; (?!charset)[a-z…]")
# ValueErrors that reach people as their words: what they stand in names the file, the key or the record
SPOKEN_VALUE_ERRORS = ("plugins/tidegate/config/", "plugins/tidegate/spec/", "plugins/tidegate/schema/data_types.py")
REASON_PATTERN = re.compile(r"^(the |select: |… )[^^\\\\?*]*[a-z]+ [a-z]+")
SQL_REASON_PATTERN = re.compile(r"(?:THEN|ELSE) '(the [^']*[a-z] [^']+)'")
JOINED_CALL = "raise_joined"  # a kind, and the lines of a text
# what only describes: parameters of commands and of models, and modules that hold nothing but such words
DESCRIBED = {"Field", "Param", "add_argument", "add_parser", "build_switch", "build_text_field"}
NO_MESSAGES = (
    "plugins/tidegate/cli/parser.py",
    "plugins/tidegate/sampling/",  # comments of the file that `tidegate init` writes
    "plugins/tidegate_airflow/dags/task_docs.py",
    "plugins/tidegate_airflow/web/app.py",
)


@dataclass(frozen=True)
class Message:
    """A message as it begins; `kind` is the error's class, `log`, `finding` or `problem`, `check` the doctor's."""

    text: str
    kind: str
    module: str
    advice: str = ""
    check: str = ""


@cache
def collect_messages(root: Path = ROOT) -> list[Message]:
    """Every message of the product's code, each text once in a module, in the order of modules and lines."""
    trees = {path: ast.parse(path.read_text()) for folder in FOLDERS for path in sorted((root / folder).rglob("*.py"))}
    kinds = find_error_classes(list(trees.values())) | AIRFLOW_ERRORS
    shared = {name: text for tree in trees.values() for name, text in _find_texts(tree.body).items() if name.isupper()}
    messages: dict[tuple[str, str], Message] = {}
    for path, tree in trees.items():
        module = path.relative_to(root).as_posix()
        for message in _Module(tree, module, kinds, shared).collect():
            if has_words(message):
                messages.setdefault((module, message.text), message)
    return list(messages.values())


def find_error_classes(trees: list[ast.Module]) -> set[str]:
    """The names of the errors whose text people read: those in `ROOT_ERRORS` and their subclasses."""
    bases = {
        node.name: {ast.unparse(base).rpartition(".")[2] for base in node.bases}
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    kinds = set(ROOT_ERRORS)
    while new_kinds := {name for name, parents in bases.items() if parents & kinds} - kinds:
        kinds |= new_kinds
    return kinds


class _Module:
    """One module's tree, with what is known of the texts in it."""

    def __init__(self, tree: ast.Module, name: str, kinds: set[str], shared: dict[str, list[ast.expr]]) -> None:
        self.tree, self.name, self.kinds = tree, name, kinds
        self.known = shared | _find_texts(tree.body)
        self.nodes = list(ast.walk(tree))
        functions = [node for node in self.nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        self.locals: dict[int, dict[str, list[ast.expr]]] = {}
        for parts in (list(ast.walk(function)) for function in functions):
            self.locals |= dict.fromkeys(map(id, parts), _find_texts(parts))
        self.used: set[int] = set()

    def collect(self) -> Iterator[Message]:
        """Messages by the calls that make them, then the texts that have the form of one."""
        calls = [node for node in self.nodes if isinstance(node, ast.Call)]
        yield from [message for call in calls for message in self._read_call(call)]
        silent = {id(part) for part in self._find_silent()}
        for node in self.nodes:
            if not _is_text(node) or id(node) in self.used or id(node) in silent:
                continue
            self.used |= {id(part) for part in ast.walk(node)}
            for text in map(_tidy, self._read(node, node)):
                yield from (Message(reason, "reason", self.name) for reason in self._find_reasons(text))
                if SENTENCE_PATTERN.search(text) and not self.name.startswith(NO_MESSAGES):
                    yield Message(text, "text", self.name)

    def _find_reasons(self, text: str) -> list[str]:
        """Reasons of records that stand in a piece of Spark's SQL."""
        return SQL_REASON_PATTERN.findall(text) if self.name.startswith(REASON_MODULES) else []

    def _find_silent(self) -> Iterator[ast.AST]:
        """What describes the code or an argument: docstrings, and the words of models, parameters and commands."""
        for node in self.nodes:
            is_description = isinstance(node, ast.Call) and _get_name(node.func) in DESCRIBED
            if isinstance(node, ast.Expr) or is_description:
                yield from ast.walk(node)

    def _read_call(self, call: ast.Call) -> Iterator[Message]:
        if (message := self._find_message(call)) is None:
            return
        kind, argument = message
        is_named = kind == "finding" and isinstance(call.args[0], ast.Constant)
        check = str(ast.literal_eval(call.args[0])) if is_named else ""
        texts = self._read(argument, call)
        advices = self._read(call.args[2], call) if kind == "finding" and len(call.args) > 2 else [""]
        if len(advices) != len(texts):  # one for all of them; of several nobody can say which belongs to which
            advices = (advices if len(advices) == 1 else [""]) * len(texts)
        for text, advice in zip(texts, advices, strict=True):
            yield Message(_tidy(text), kind, self.name, _tidy(advice), check)

    def _find_message(self, call: ast.Call) -> tuple[str, ast.expr] | None:
        """What kind of message a call makes, and the argument that is its text; None for any other call."""
        name = _get_name(call.func)
        holder = _get_name(call.func.value) if isinstance(call.func, ast.Attribute) else ""
        place = None
        if name in self.kinds or (name == "ValueError" and self.name.startswith(SPOKEN_VALUE_ERRORS)):
            kind, place = name, 0
        elif name in LOG_CALLS and holder in LOGGERS:
            kind, place = "log", 0
        elif name in FINDING_CALLS:
            kind, place = "finding", FINDING_CALLS[name]
        elif name in PROBLEM_CALLS and holder in PROBLEM_LISTS and self.name.startswith(PROBLEM_MODULES):
            kind, place = "problem", PROBLEM_CALLS[name]
        elif name == REASON_CALL and self.name.startswith(REASON_MODULES):
            kind, place = "reason", 0
        elif name == JOINED_CALL and isinstance(lines := call.args[1], ast.List):
            return "AirflowFailException", lines.elts[0]
        return None if place is None or len(call.args) <= place else (kind, call.args[place])

    def _read(self, node: ast.expr, scope_node: ast.AST) -> list[str]:
        return self._read_known(node, self.known | self.locals.get(id(scope_node), {}))

    def _read_known(self, node: ast.expr, known: dict[str, list[ast.expr]]) -> list[str]:
        """The texts that an expression can give, with a gap for each part that only a run knows."""
        self.used.add(id(node))
        texts = [GAP]
        match node:
            case ast.Constant(value=str(text)):
                texts = [re.sub(r"%(\.\d+)?[a-z]\b", GAP, text)]
            case ast.JoinedStr(values=parts):
                texts = _join([self._read_known(part, known) for part in parts])
            case ast.FormattedValue(value=ast.Name() | ast.JoinedStr() | ast.IfExp() as value):
                texts = self._read_known(value, known)
            case ast.BinOp(left=left_operand, op=ast.Add(), right=right_operand):
                texts = _join([self._read_known(left_operand, known), self._read_known(right_operand, known)])
            case ast.IfExp(body=body, orelse=alternative):
                texts = [*self._read_known(body, known), *self._read_known(alternative, known)][:MAX_TEXTS]
            case ast.Name(id=name, lineno=line) if name in known:
                assigned = max(
                    known[name], key=lambda value: (value.lineno <= line, value.lineno)
                )  # the last one before
                texts = self._read_known(assigned, {key: value for key, value in known.items() if key != name})
        return texts


def _find_texts(nodes: Iterable[ast.AST]) -> dict[str, list[ast.expr]]:
    """The texts that these statements give to names, without what lies inside of them."""
    values: dict[str, list[ast.expr]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            values.setdefault(node.targets[0].id, []).append(node.value)
        elif isinstance(node, ast.NamedExpr):
            values.setdefault(node.target.id, []).append(node.value)
    return {name: texts for name, nodes in values.items() if (texts := [node for node in nodes if _is_text(node)])}


def _get_name(node: ast.expr) -> str:
    """The last name of what is called, or of what a name stands in; empty for an expression."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_text(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Add) and (_is_text(node.left) or _is_text(node.right))
    if isinstance(node, ast.IfExp):
        return _is_text(node.body) or _is_text(node.orelse)
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _join(parts: list[list[str]]) -> list[str]:
    texts = [""]
    for choices in parts:
        texts = [text + choice for text in texts for choice in choices][:MAX_TEXTS]
    return texts


def _tidy(text: str) -> str:
    """One line, without gaps that touch each other."""
    return re.sub(f"{GAP}[{GAP} ]*{GAP}", GAP, " ".join(text.split()))


def has_words(message: Message) -> bool:
    """Whether a message has words of its own: one that only repeats another message has none."""
    if message.kind == "reason":
        return REASON_PATTERN.search(message.text) is not None
    return len(re.findall(r"[A-Za-z]", re.sub(r"[\w.]+=…", "", message.text))) >= MIN_LETTERS


if __name__ == "__main__":
    for one in collect_messages():
        print(one.kind, one.module, one.text, one.advice, one.check, sep="\t")
