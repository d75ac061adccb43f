"""An upgrade of PyIceberg looks into one module: no other one depends on what its authors may change without a word."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[5]
PRIVATE_MODULE = ROOT / "plugins/tidegate/adapters/iceberg/pyiceberg_private.py"
NAMED_TUPLE = {"_fields", "_replace", "_asdict", "_make"}
SETTABLE = {"spec_id"}  # of a data file, which PyIceberg's own reader sets in the same way


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in NAMED_TUPLE


def list_imported_names(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Each name that a module imports, after the library that it comes from."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (((node.module or "").partition(".")[0], alias.asname or alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name.partition(".")[0], alias.asname or alias.name) for alias in node.names)


def find_private_parts(text: str) -> list[str]:
    """Private names, replaced methods, swapped classes and derived classes in a module that imports PyIceberg."""
    tree = ast.parse(text)
    imported = list(list_imported_names(tree))
    of_library = {name for library, name in imported if library == "pyiceberg"}
    of_others = {"self", "cls", *(name for library, name in imported if library != "pyiceberg")}
    found = [name for name in sorted(of_library) if is_private(name)]
    for node in ast.walk(tree) if of_library else ():
        if isinstance(node, ast.ClassDef):
            bases = {base.id for part in node.bases for base in ast.walk(part) if isinstance(base, ast.Name)}
            found += sorted(bases & of_library)
        elif isinstance(node, ast.Attribute) and not (isinstance(node.value, ast.Name) and node.value.id in of_others):
            is_changed = isinstance(node.ctx, ast.Store) and node.attr not in SETTABLE
            found += [node.attr] if is_private(node.attr) or is_changed or node.attr == "__setattr__" else []
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            is_hidden = node.func.id == "setattr" or (node.func.id == "getattr" and "'_" in ast.unparse(node))
            found += [ast.unparse(node)] if is_hidden else []
    return found


def test_one_module_alone_touches_what_is_private_in_pyiceberg() -> None:
    paths = [path for folder in ("plugins", "jobs") for path in (ROOT / folder).rglob("*.py") if path != PRIVATE_MODULE]
    parts = {path.relative_to(ROOT).as_posix(): find_private_parts(path.read_text()) for path in paths}
    assert {path: found for path, found in parts.items() if found} == {}
    assert {"_SnapshotProducer", "_updates", "load_table"} <= set(find_private_parts(PRIVATE_MODULE.read_text()))


@pytest.mark.parametrize(
    ("statement", "part"),
    [
        ("updates = transaction._updates", "_updates"),
        ("from pyiceberg.io.pyarrow import _read_deletes", "_read_deletes"),
        ("catalog.load_table = print", "load_table"),
        ("object.__setattr__(metadata, '__class__', Table)", "__setattr__"),
        ("class Ours(Table): ...", "Table"),
        ("setattr(catalog, 'load_table', print)", "setattr(catalog, 'load_table', print)"),
        ("getattr(update, '_apply')()", "getattr(update, '_apply')"),
    ],
)
def test_each_way_to_touch_it_is_found(statement: str, part: str) -> None:
    assert find_private_parts(f"from pyiceberg.table import Table\n{statement}\n") == [part]


@pytest.mark.parametrize("statement", ["self._table = table", "row._fields", "KafkaError._EOF", "table.metadata.refs"])
def test_what_is_public_or_of_another_library_is_no_private_part(statement: str) -> None:
    imports = "from confluent_kafka import KafkaError\nfrom pyiceberg.table import Table\n"
    assert find_private_parts(imports + statement) == []
