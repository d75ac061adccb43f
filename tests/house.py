"""Figures of the house, for the table in ADR 40: `PYTHONPATH=tests python -m house` prints them."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("plugins", "jobs", "dags")
# First words of functions that are no verbs, and say nothing that is asked: a part of a value, or what it is made of.
NO_VERBS = frozenset(
    re.findall(
        r"\w+",
        """
    ancestors age at attempt batch before behind below between branch catalog client content converted deleted end
    existing files for from in incompatible joined kind kinds line loaded logical login lone lost made main
    manifests most named names of on once only optional partial path plus present ranges replacement resolved rows
    shared slices snapshot sql summary superseded table then touched types unexplained with written
        """,
    )
)


# What implements one port, or one idea, once for each member of a kind has one name. The group is the member.
KINDS = (
    r"adapters/(bigquery|iceberg|kafka|spark)/|schema/(avro|json_schema|protobuf)",  # systems, and languages of schemas
    r"sql/(googlesql|spark)\.py",  # dialects
    r"jobs/tidegate_spark/((?:formats|publish/encoders|fields)/.*)",  # formats
    r"(.*[/_]job)\.py",  # jobs
    r"(cli/commands|tidegate_airflow/tasks)",  # a verb as a command and as a task
    r"(cli/main|doctor_facts)\.py",  # processes: `main`
)


def find_member(kind: str, place: str) -> str | None:
    """Which member of the kind the module at `place` stands for; None for one of no such kind."""
    match = re.search(kind, place)
    return match[match.lastindex or 0] if match else None


@cache
def parse(path: Path) -> ast.Module:
    """The module, parsed once for all rules."""
    return ast.parse(path.read_text())


@cache
def list_nodes(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of the module."""
    return tuple(ast.walk(parse(path)))


def list_trees() -> Iterator[tuple[Path, ast.Module]]:
    """Every module of the product, parsed."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path, parse(path)


def is_function(node: ast.AST) -> bool:
    """Whether it is a function with a name of its own choosing: no property, no `__method__`."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("__"):
        return False
    return not any("property" in ast.unparse(decorator) for decorator in node.decorator_list)


def count_verbs() -> tuple[int, int]:
    """Functions that begin with a verb, and all; `to_x`, `is_x` and `has_x` convert and ask, so they count."""
    nodes = [node for _, tree in list_trees() for node in ast.walk(tree) if is_function(node)]
    names = [node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return sum(name.strip("_").split("_")[0] not in NO_VERBS for name in names), len(names)


def count_modules() -> Counter[str]:
    """Modules by package, without `__init__`."""
    paths = [path for path, _ in list_trees() if path.name != "__init__.py" and (path.parent / "__init__.py").exists()]
    return Counter(path.parent.relative_to(ROOT).as_posix() for path in paths)


def find_shared_names() -> dict[str, list[str]]:
    """Public functions and classes that several modules define under one name, with those modules."""
    places = defaultdict(list)
    for path, tree in list_trees():
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name[0] != "_":
                places[node.name].append(path.relative_to(ROOT).as_posix())
    return {name: paths for name, paths in sorted(places.items()) if len(paths) > 1}


def is_one_meaning(places: list[str]) -> bool:
    """Whether each does the same for another of a kind: a system, a language of schemas, a format, a job, a way in."""
    kinds = ([find_member(kind, place) for place in places] for kind in KINDS)
    return any(None not in members and len(set(members)) == len(places) for members in kinds)


def count_described() -> tuple[int, int]:
    """Public functions whose docstring says more than one sentence, or 90 letters, and all."""
    texts = [
        ast.get_docstring(node) or ""
        for _, tree in list_trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and is_function(node) and node.name[0] != "_"
    ]
    return sum(len(text) > 90 or ". " in text for text in texts), len(texts)


def count_plain_results() -> int:
    """Public functions that return dictionaries of whatever, besides `to_dict`: no type says which keys those have."""
    return sum(
        "dict[str, Any]" in ast.unparse(node.returns)
        for _, tree in list_trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.returns is not None
        if node.name[0] != "_" and node.name != "to_dict"
    )


def main() -> None:
    """Print the figures."""
    (verbs, functions), modules, names = count_verbs(), count_modules(), find_shared_names()
    documented, public = count_described()
    print(f"modules in the largest package: {max(modules.values())}")
    print(f"packages: {len(modules)}; modules in one: {sum(modules.values()) / len(modules):.1f}")
    print(f"functions that begin with a verb: {verbs} of {functions}, {100 * verbs / functions:.0f} %")
    print(f"public names that several modules define: {len(names)}")
    several = {name: places for name, places in names.items() if not is_one_meaning(places)}
    print(f"of these, with another meaning than one per system, format or job: {len(several)}")
    for name, places in several.items():
        print(f"  {name}: {', '.join(places)}")
    print(f"public functions that return a dict[str, Any], besides to_dict: {count_plain_results()}")
    print(f"public functions with more than one sentence of docstring: {documented} of {public}")


if __name__ == "__main__":
    main()
