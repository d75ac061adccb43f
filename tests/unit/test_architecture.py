"""Holds the layers of the house: who may import whom, how long a file or function may be, and its name."""

import ast
import sys
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("plugins", "jobs", "dags")
FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
FORBIDDEN_NAMES = {"utils", "helpers", "common", "base", "manager", "types"}
LIBRARIES = ("tidegate", "tidegate_airflow")
FILE_LINES, FUNCTION_LINES = 300, 40

STDLIB = set(sys.stdlib_module_names)
CORE = "plugins/tidegate/*.py"
PUBLICATIONS = "plugins/tidegate/publications/*.py"
STEPS = "plugins/tidegate/steps/*.py"
ADAPTERS = "plugins/tidegate/adapters/*.py"
CLI = ("plugins/tidegate/cli/*.py", "plugins/tidegate/__main__.py")
SPARK = ("jobs/tidegate_spark/*.py", "jobs/tidegate_spark/formats/*.py")
PRODUCER = "jobs/tidegate_spark/produce.py"  # the one file whose functions run in the executors' Python
REGISTRY = "jobs/tidegate_spark/register.py"
IN_EXECUTORS = {"confluent_kafka", "pyarrow"}
AIRFLOW = (
    "plugins/tidegate_airflow/*.py",
    "plugins/tidegate_airflow/page/*.py",
    "plugins/tidegate_plugin.py",
    "dags/*.py",
)

# module prefix -> the only files that may import it
ALLOWED = {
    "pyspark": (*SPARK, "jobs/serve.py"),
    "pyspark.errors": (*SPARK, "plugins/tidegate/adapters/spark_connect.py"),
    "airflow": AIRFLOW,
    "tidegate_airflow": AIRFLOW,
    "tidegate_spark": ("jobs/*.py", *SPARK),
    "tidegate.adapters": (ADAPTERS, *CLI, *AIRFLOW),
    "dags": ("dags/*.py",),
    "jobs": (),
}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def matches(path: Path, *patterns: str) -> bool:
    """Like a shell: `*` does not cross a folder."""
    name = name_of(path)
    return any(name.count("/") == pattern.count("/") and fnmatch(name, pattern) for pattern in patterns)


def for_each(paths: Iterable[Path]) -> Callable[[Callable[[Path], None]], Callable[[], None]]:
    """One test of a rule that holds for every file: it names all that break it, and counts as one."""

    def decorate(check: Callable[[Path], None]) -> Callable[[], None]:
        def test() -> None:
            found = [f"{name_of(path)}: {problem}" for path in paths if (problem := broken(check, path))]
            assert not found, "\n".join(found)

        test.__name__, test.__doc__ = check.__name__, check.__doc__
        return test

    return decorate


def broken(check: Callable[[Path], None], path: Path) -> str:
    """What a check says against a file, empty for nothing."""
    try:
        check(path)
    except AssertionError as problem:
        return str(problem) or "broken"
    return ""


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Every imported module, wherever it stands; `from a import b` counts as `a.b`, which may be a module."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}:{node.lineno}: relative import; write the absolute one"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def within(module: str, prefix: str) -> bool:
    return module == prefix or module.startswith(prefix + ".")


def modules(path: Path) -> set[str]:
    return {module.partition(".")[0] for _, module in imports(path)}


@for_each(FILES)
def test_layer_does_not_import_what_lies_above_or_beside_it(path: Path) -> None:
    for line, module in imports(path):
        prefixes = [prefix for prefix in ALLOWED if within(module, prefix)]
        for prefix in [max(prefixes, key=len)] if prefixes else []:
            assert matches(path, *ALLOWED[prefix]), (
                f"{name_of(path)}:{line} imports {module}; only {', '.join(ALLOWED[prefix]) or 'nobody'} may"
            )


@for_each([p for p in FILES if matches(p, CORE, STEPS, PUBLICATIONS)])
def test_core_and_steps_stand_on_the_standard_library_alone(path: Path) -> None:
    allowed = STDLIB | {"tidegate"}
    assert modules(path) <= allowed, f"{name_of(path)} imports {modules(path) - allowed}"


@for_each([p for p in FILES if matches(p, STEPS, PUBLICATIONS)])
def test_steps_know_nouns_and_ports_but_no_adapter(path: Path) -> None:
    assert not [m for _, m in imports(path) if within(m, "tidegate.adapters") or within(m, "tidegate.cli")]


@for_each([p for p in FILES if matches(p, CORE) and p.name != "__main__.py"])
def test_nouns_do_not_know_the_command_line(path: Path) -> None:
    assert not [m for _, m in imports(path) if within(m, "tidegate.cli")]


# they go to Spark's Python workers, which have libraries and not the product
TRAVEL = ("avro_lengths.py", "protobuf_rows.py", "protobuf_bytes.py")


@for_each([p for p in FILES if matches(p, *SPARK, "jobs/*.py")])
def test_jobs_meet_the_worker_in_nouns_only(path: Path) -> None:
    allowed = STDLIB | ({"google", "pyarrow"} if path.name in TRAVEL else {"pyspark", "tidegate", "tidegate_spark"})
    allowed |= IN_EXECUTORS if matches(path, PRODUCER, REGISTRY) else set()
    assert modules(path) <= allowed
    assert not [m for _, m in imports(path) if within(m, "tidegate.adapters") or within(m, "tidegate.steps")]


@for_each([p for p in FILES if matches(p, *SPARK)])
def test_job_code_runs_through_connect_as_well_no_rdd_no_jvm(path: Path) -> None:
    used = {node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}
    assert not used & {"rdd", "_jvm", "_jsc", "sparkContext", "_jdf"}


@for_each(FILES)
def test_module_says_which_part_of_the_journey_it_owns(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), f"{name_of(path)} has no docstring"


@for_each(FILES)
def test_package_files_hold_a_docstring_and_nothing_else(path: Path) -> None:
    if path.name == "__init__.py":
        assert len(ast.parse(path.read_text()).body) == 1


@for_each(FILES)
def test_file_and_functions_stay_short_enough_to_read(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= FILE_LINES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            assert lines <= FUNCTION_LINES, f"{name_of(path)}:{node.lineno} {node.name} has {lines} lines"


@for_each(FILES)
def test_name_says_what_is_inside(path: Path) -> None:
    parts = set(path.relative_to(ROOT).with_suffix("").parts)
    assert not parts & FORBIDDEN_NAMES


def test_half_of_the_files_are_short() -> None:
    lines = sorted(len(path.read_text().splitlines()) for path in FILES if path.name != "__init__.py")
    assert lines[len(lines) // 2] < 120


def test_airflow_never_executes_the_libraries_as_plugins() -> None:
    """Airflow runs every file below plugins/ as a top-level module unless the folder is named in .airflowignore."""
    ignored = (ROOT / "plugins" / ".airflowignore").read_text().split()
    for library in LIBRARIES:
        assert any(fnmatch(f"{library}/x.py", pattern.rstrip("/") + "*") for pattern in ignored), library


def test_the_rules_apply_to_files_that_exist() -> None:
    for pattern in (CORE, STEPS, PUBLICATIONS, PRODUCER, REGISTRY, ADAPTERS, *SPARK, "jobs/*.py", *CLI):
        assert [path for path in FILES if matches(path, pattern)], pattern
