"""Holds the layers of the house: who may import whom, how long a function may be, and its name."""

import ast
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from fnmatch import fnmatch
from pathlib import Path

import pytest
from house import find_shared_names, is_one_meaning, list_nodes, parse

ROOT = Path(__file__).parents[2]
FOLDERS = ("plugins", "jobs", "dags")
FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
FORBIDDEN_NAMES = {"utils", "helpers", "common", "base", "manager"}
LIBRARIES = ("tidegate", "tidegate_airflow")
FUNCTION_LINES = 50

STDLIB = set(sys.stdlib_module_names)
CORE = "plugins/tidegate/"
ADAPTERS = f"{CORE}adapters/"
PACKED = f"{CORE}sampling/encoded_values.py"  # reads MessagePack by its library
ABOVE = ("fleet/", "runner/", "config/", "wiring/", "cli/", "__main__.py", "connections.py")
OUTSIDE = (ADAPTERS, *(f"{CORE}{place}" for place in ABOVE))
SPARK = "jobs/tidegate_spark/"
PUBLISH = f"{SPARK}publish/"
PRODUCER = f"{PUBLISH}producer.py"  # the one file whose functions run in the executors' Python
REGISTRY = f"{PUBLISH}encoders/schema_registration.py"
IN_EXECUTORS = {"confluent_kafka", "pyarrow"}
IN_DRIVER = {"pyspark", "tidegate", "tidegate_spark"}
AIRFLOW = ("plugins/tidegate_airflow/", "plugins/tidegate_plugin.py", "dags/")

# module prefix -> the only files or folders that may import it; what packages may import of each other stands in
# .importlinter, which does not see the entry points beside them
ALLOWED = {
    "pyspark": (SPARK, "jobs/serve.py"),
    "pyspark.errors": (SPARK, f"{ADAPTERS}spark/connect.py"),
    "airflow": AIRFLOW,
    "tidegate_airflow": AIRFLOW,
    "tidegate_spark": ("jobs/",),
    "tidegate.adapters": (*OUTSIDE, *AIRFLOW),
    "dags": ("dags/",),
    "jobs": (),
}


@pytest.fixture(scope="module", autouse=True)
def trees() -> Iterator[None]:
    """All modules are read once for these tests, and forgotten after them."""
    yield
    list_nodes.cache_clear()
    parse.cache_clear()


def format_path(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def is_in(path: Path, *places: str) -> bool:
    """Whether it is one of these files, or lies anywhere below one of these folders, also in one that is new."""
    return any(
        format_path(path) == place or (place.endswith("/") and format_path(path).startswith(place)) for place in places
    )


def check_each(paths: Iterable[Path]) -> Callable[[Callable[[Path], None]], Callable[[], None]]:
    """One test of a rule that holds for every file: it names all that break it, and counts as one."""

    def decorate(check: Callable[[Path], None]) -> Callable[[], None]:
        def test() -> None:
            problems = [f"{format_path(path)}: {problem}" for path in paths if (problem := find_problem(check, path))]
            assert not problems, "\n".join(problems)

        test.__name__, test.__doc__ = check.__name__, check.__doc__
        return test

    return decorate


def find_problem(check: Callable[[Path], None], path: Path) -> str:
    """What a check says against a file, empty for nothing."""
    try:
        check(path)
    except AssertionError as problem:
        return str(problem) or "broken"
    return ""


def list_imports(path: Path) -> Iterator[tuple[int, str]]:
    """Every imported module, wherever it stands; `from a import b` counts as `a.b`, which may be a module."""
    for node in list_nodes(path):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{format_path(path)}:{node.lineno}: relative import; write the absolute one"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def is_within(module: str, prefix: str) -> bool:
    return module == prefix or module.startswith(prefix + ".")


def list_modules(path: Path) -> set[str]:
    return {module.partition(".")[0] for _, module in list_imports(path)}


@check_each(FILES)
def test_layer_does_not_import_what_lies_above_or_beside_it(path: Path) -> None:
    for line, module in list_imports(path):
        prefixes = [prefix for prefix in ALLOWED if is_within(module, prefix)]
        for prefix in [max(prefixes, key=len)] if prefixes else []:
            assert is_in(path, *ALLOWED[prefix]), (
                f"{format_path(path)}:{line} imports {module}; only {', '.join(ALLOWED[prefix]) or 'nobody'} may"
            )


@check_each([p for p in FILES if is_in(p, CORE) and not is_in(p, *OUTSIDE, PACKED)])
def test_core_and_steps_stand_on_the_standard_library_alone(path: Path) -> None:
    allowed_modules = STDLIB | {"tidegate"}
    assert list_modules(path) <= allowed_modules, f"{format_path(path)} imports {list_modules(path) - allowed_modules}"


# they go to Spark's Python workers, which have libraries and not the product
TRAVEL = (
    *(f"{SPARK}fields/{name}.py" for name in ("arrow_decoder", "avro_lengths", "msgpack")),
    f"{SPARK}fields/protobuf.py",
    f"{PUBLISH}encoders/protobuf_messages.py",  # stays, and asks what travels whether it takes its schema
    f"{PUBLISH}encoders/protobuf_rows.py",
)


@check_each([p for p in FILES if is_in(p, "jobs/")])
def test_jobs_meet_the_worker_in_nouns_only(path: Path) -> None:
    travels = is_in(path, *TRAVEL)
    allowed_modules = STDLIB | ({"google", "msgpack", "pyarrow", "tidegate_spark"} if travels else IN_DRIVER)
    allowed_modules |= IN_EXECUTORS if is_in(path, PRODUCER, REGISTRY) else set()
    assert list_modules(path) <= allowed_modules
    for line, module in list_imports(path) if travels else ():
        own = f"jobs/{module.rpartition('.')[0].replace('.', '/')}.py"
        assert not is_within(module, "tidegate_spark") or is_in(ROOT / own, *TRAVEL), f"{line}: {module} stays behind"


@check_each([p for p in FILES if is_in(p, SPARK)])
def test_job_code_runs_through_connect_as_well_no_rdd_no_jvm(path: Path) -> None:
    used = {node.attr for node in list_nodes(path) if isinstance(node, ast.Attribute)}
    assert not used & {"rdd", "_jvm", "_jsc", "sparkContext", "_jdf"}


@check_each(FILES)
def test_module_says_which_part_of_the_journey_it_owns(path: Path) -> None:
    assert ast.get_docstring(parse(path)), f"{format_path(path)} has no docstring"


@check_each(FILES)
def test_package_files_hold_a_docstring_and_nothing_else(path: Path) -> None:
    if path.name == "__init__.py":
        assert len(parse(path).body) == 1


@check_each(FILES)
def test_function_fits_on_a_screen(path: Path) -> None:
    for node in list_nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            assert lines <= FUNCTION_LINES, f"{format_path(path)}:{node.lineno} {node.name} has {lines} lines"


@check_each(FILES)
def test_name_says_what_is_inside(path: Path) -> None:
    parts = set(path.relative_to(ROOT).with_suffix("").parts)
    assert not parts & FORBIDDEN_NAMES


# where a type of destination may be called by its name: what describes it, and its own adapter
DESTINATION_TYPES = {path.name: path for path in (ROOT / ADAPTERS).iterdir() if (path / "destination.py").exists()}
DESCRIPTIONS = f"{CORE}config/destinations/"
READERS = f"{CORE}spec/readers.py"  # engines that read Iceberg's tables, one of which has a destination's name


def list_words(path: Path) -> Iterator[tuple[int, str]]:
    """Every text of the code that is a name, and every part of the path of a module that is imported."""
    for node in list_nodes(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
    for line, module in list_imports(path):
        yield from ((line, part) for part in module.split("."))


@check_each(FILES)
def test_type_of_destination_is_named_by_its_description_and_its_adapter_alone(path: Path) -> None:
    for line, word in list_words(path):
        own = (f"{ADAPTERS}{word}/", f"plugins/tidegate_airflow/triggers/{word}_job.py")
        assert word not in DESTINATION_TYPES or is_in(path, DESCRIPTIONS, READERS, *own), (
            f"{format_path(path)}:{line} asks for {word} by its name; ask the description what it can do"
        )


def test_every_adapter_of_a_destination_is_registered() -> None:
    from tidegate.config.destinations.registry import DESTINATIONS

    assert {"iceberg", "bigquery"} <= set(DESTINATION_TYPES)
    assert set(DESTINATIONS) == set(DESTINATION_TYPES)


FORMAT_REGISTRY = f"{CORE}formats/registry.py"


def is_format_comparison(node: ast.AST) -> bool:
    """Whether the `format` of a key or a value is compared, or chooses a case."""
    looked_at: list[ast.expr] = []
    if isinstance(node, ast.Compare):
        looked_at = [node.left, *node.comparators]
    elif isinstance(node, ast.Match):
        looked_at = [node.subject]
    return any(isinstance(side, ast.Attribute) and side.attr == "format" for side in looked_at)


@check_each(FILES)
def test_format_is_named_by_its_description_alone(path: Path) -> None:
    """Names that are also a kind of options, of a schema or of a field may stand elsewhere, but choose nothing."""
    from tidegate.formats.registry import FORMATS

    words_of_others = {format_description.options for format_description in FORMATS.values()} | {"string"}
    names = FORMATS.keys() - words_of_others
    for node in list_nodes(path):
        is_named = isinstance(node, ast.Constant) and node.value in names
        assert not is_named or is_in(path, FORMAT_REGISTRY), (
            f"{format_path(path)}:{getattr(node, 'lineno', 0)} names a format; ask its description what it can do"
        )
        assert not is_format_comparison(node), (
            f"{format_path(path)}:{getattr(node, 'lineno', 0)} compares a format's name; "
            "ask its description what it can do"
        )


def test_every_module_of_a_format_is_registered() -> None:
    from tidegate.formats.registry import FORMATS

    for folder, modules_named in (
        (f"{SPARK}formats", {format_description.module for format_description in FORMATS.values()}),
        (
            f"{PUBLISH}encoders",
            {format_description.encoder for format_description in FORMATS.values() if format_description.is_written},
        ),
    ):
        paths = {module: ROOT / folder / f"{module.replace('.', '/')}.py" for module in modules_named}
        assert all(path.exists() for path in paths.values()), paths
        reads_or_writes = {
            path
            for path in (ROOT / folder).rglob("*.py")
            if {"decode_value", "decode_key", "encode"}
            & {node.name for node in parse(path).body if isinstance(node, ast.FunctionDef)}
        }
        assert reads_or_writes == set(paths.values())


def test_no_port_gets_its_methods_at_run_time() -> None:
    """Neither `__getattr__`, nor a decorator of a class that rewrites its methods.

    But for the lookup of a table's catalog: it stands behind the ports' own types, and its test calls each method.
    """
    for path in FILES:
        if path.name == "catalog_routing.py":
            continue
        for node in list_nodes(path):
            assert not (isinstance(node, ast.FunctionDef) and node.name == "__getattr__"), format_path(path)
            if isinstance(node, ast.ClassDef):
                decorators = {
                    ast.unparse(decorator).partition("(")[0].rpartition(".")[2] for decorator in node.decorator_list
                }
                assert decorators <= {"dataclass", "final"}, (
                    f"{format_path(path)}: {node.name} is rewritten by {decorators}"
                )


MOST_POSITIONAL = 4


def is_record(node: ast.ClassDef) -> bool:
    shapes = [
        *(ast.unparse(decorator) for decorator in node.decorator_list),
        *(ast.unparse(base) for base in node.bases),
    ]
    return any("dataclass" in shape or shape == "NamedTuple" for shape in shapes)


def test_records_of_many_fields_are_built_by_the_names_of_the_fields() -> None:
    """Six numbers and texts in a row are swapped without anybody noticing."""
    classes = [node for path in FILES for node in list_nodes(path) if isinstance(node, ast.ClassDef)]
    records = {node.name for node in classes if is_record(node)}
    positional = [
        f"{format_path(path)}:{node.lineno} {ast.unparse(node.func)}"
        for path in FILES
        for node in list_nodes(path)
        if isinstance(node, ast.Call) and len(node.args) > MOST_POSITIONAL
        if ast.unparse(node.func).rpartition(".")[2] in records | {"cls"}
    ]
    assert not positional, "\n".join(positional)


def test_public_name_has_one_meaning() -> None:
    """Who meets it in an import or a stack trace need not ask which; `house.KINDS` says what shares a name rightly."""
    several = {name: places for name, places in find_shared_names().items() if not is_one_meaning(places)}
    assert not several, several
    assert not is_one_meaning(["plugins/tidegate/a.py", "plugins/tidegate/b.py"])
    assert not is_one_meaning([f"plugins/tidegate/adapters/iceberg/{name}.py" for name in ("a", "b")])
    assert is_one_meaning([f"plugins/tidegate/adapters/{system}/a.py" for system in ("iceberg", "bigquery")])


def test_airflow_never_executes_the_libraries_as_plugins() -> None:
    """Airflow runs every file below plugins/ as a top-level module unless the folder is named in .airflowignore."""
    patterns = (ROOT / "plugins" / ".airflowignore").read_text().split()
    for library in LIBRARIES:
        assert any(fnmatch(f"{library}/x.py", pattern.rstrip("/") + "*") for pattern in patterns), library


def test_every_class_of_error_stands_in_the_one_tree_that_its_name_is_looked_up_in() -> None:
    """One in another module would be found, for its page of the runbook, only where that module is loaded."""
    nodes = ((path, node) for path in FILES for node in list_nodes(path))
    classes = [(path, node) for path, node in nodes if isinstance(node, ast.ClassDef)]
    bases = {node.name: {ast.unparse(base).rpartition(".")[2] for base in node.bases} for _, node in classes}
    kinds = {"TidegateError"}
    while new_kinds := {name for name, above in bases.items() if above & kinds} - kinds:
        kinds |= new_kinds
    error_files = {format_path(path) for path, node in classes if node.name in kinds}
    assert len(kinds) > 10
    assert error_files == {"plugins/tidegate/errors.py"}


def find_port_classes(adapter: Path) -> dict[str, ast.ClassDef]:
    """The classes that an adapter gives for the ports of a destination, wherever they stand, by the port's name."""
    classes = [node for path in adapter.rglob("*.py") for node in parse(path).body if isinstance(node, ast.ClassDef)]
    by_name = {node.name: node for node in classes}
    calls = [node for node in list_nodes(adapter / "destination.py") if isinstance(node, ast.Call)]
    (destination,) = (call for call in calls if ast.unparse(call.func) == "Destination")
    return {
        keyword.arg: by_name[ast.unparse(keyword.value.func)]
        for keyword in destination.keywords
        if keyword.arg and isinstance(keyword.value, ast.Call)
    }


def test_every_method_of_a_port_translates_the_errors_of_its_library() -> None:
    """One that is left out would give a step the library's own error, which no retry and no message knows.

    That no method is missing is mypy's: a port says what a destination does that has none of its own.
    """
    from tidegate.ports.destination import Destination

    untranslated = []
    for adapter in DESTINATION_TYPES.values():
        session = find_port_classes(adapter)
        assert session.keys() == {field.name for field in fields(Destination)}
        for node in session.values():
            methods = [method for method in node.body if isinstance(method, ast.FunctionDef) and method.name[0] != "_"]
            assert methods, f"{node.name} has no method: are they elsewhere?"
            untranslated += [
                f"{node.name}.{method.name}"
                for method in methods
                if not any("translate_" in ast.unparse(decorator) for decorator in method.decorator_list)
            ]
    assert untranslated == []


def list_packages() -> dict[str, list[Path]]:
    """Folder of each package -> its modules."""
    packages = {path.parent: [] for path in FILES if path.name == "__init__.py"}
    for path in FILES:
        if path.parent in packages and path.name != "__init__.py":
            packages[path.parent].append(path)
    return {format_path(folder): paths for folder, paths in packages.items()}


def test_every_module_lies_in_a_package() -> None:
    loose = [
        format_path(p)
        for p in FILES
        if is_in(p, CORE, SPARK, AIRFLOW[0]) and format_path(p.parent) not in list_packages()
    ]
    assert not loose, f"a folder of modules has no __init__.py: {loose}"


def test_unit_tests_lie_where_their_subject_lies() -> None:
    unit = ROOT / "tests" / "unit"
    for library in ("tidegate", "tidegate_airflow", "tidegate_spark"):
        root = ROOT / ("jobs" if library == "tidegate_spark" else "plugins")
        for test in (unit / library).rglob("test_*.py"):
            assert (root / test.relative_to(unit).parent).is_dir(), f"{format_path(test)}: there is no such package"


def test_the_rules_apply_to_files_that_exist() -> None:
    for place in (CORE, DESCRIPTIONS, FORMAT_REGISTRY, PRODUCER, REGISTRY, *OUTSIDE, *AIRFLOW, SPARK, "jobs/", "dags/"):
        assert [path for path in FILES if is_in(path, place)], place
