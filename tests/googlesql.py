"""GoogleSQL's own analyzer, as a judge of every statement that is sent to BigQuery: names, types and clauses.

It is compiled once for a machine, which takes most of a minute, and kept in `.cache`; ``python -m googlesql`` does it.
"""

import os
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tidegate.adapters.bigquery.types import to_stored_type
from tidegate.schema.data_types import Array, Column, DataType, Primitive, Struct, parse_type

CACHE = Path(__file__).parents[1] / ".cache"
# what the analyzer knows and BigQuery does not, or not everywhere
FOREIGN = ("GROUP_BY_STRUCT", "GROUP_BY_ARRAY", "ARRAY_ORDERING", "ARRAY_EQUALITY", "MAP_TYPE", "JSON_TYPE_COMPARISON")
STRICTER = ("DISALLOW_GROUP_BY_FLOAT",)
BIGQUERYS = ("ALTER_COLUMN_SET_DATA_TYPE",)  # which the analyzer takes for unfinished
KINDS = {
    "BOOLEAN": "BOOL", "BIGINT": "INT64", "DOUBLE": "DOUBLE", "STRING": "STRING", "BINARY": "BYTES", "DATE": "DATE",
    "TIMESTAMP": "TIMESTAMP", "TIMESTAMP_NTZ": "DATETIME",
}  # fmt: skip


class Refused(AssertionError):
    """The analyzer's words, with the statement."""


def _get_module_path() -> Path:
    return CACHE / f"zetasql-{version('zetasql')}-{version('wasmtime')}.cwasm"


def is_compiled() -> bool:
    return _get_module_path().exists()


def compile_once() -> None:
    """Compile the analyzer unless this machine has it."""
    if not is_compiled():
        _load_service()


@cache
def _load_service() -> Any:
    import wasmtime
    from zetasql.core import wasm_client
    from zetasql.core.local_service import ZetaSqlLocalService

    module_path = _get_module_path()
    compiled = wasmtime.Module

    class Kept:
        @staticmethod
        def from_file(engine: Any, path: Any) -> Any:
            if not module_path.exists():
                CACHE.mkdir(exist_ok=True)
                with tempfile.NamedTemporaryFile(dir=CACHE, delete=False) as file:
                    file.write(compiled.from_file(engine, str(path)).serialize())
                os.replace(file.name, module_path)
            return compiled.deserialize_file(engine, str(module_path))

    wasm_client.Module = Kept  # type: ignore[misc, assignment]
    return ZetaSqlLocalService.get_instance()


@cache
def _build_language() -> Any:
    from zetasql import types

    _load_service()
    language = types.LanguageOptions.maximum_features()
    language.product_mode = types.ProductMode.PRODUCT_EXTERNAL
    foreign = {getattr(types.LanguageFeature, f"FEATURE_{name}") for name in FOREIGN}
    stricter = [getattr(types.LanguageFeature, f"FEATURE_{name}") for name in (*STRICTER, *BIGQUERYS)]
    features = [feature for feature in language.enabled_language_features if feature not in foreign]
    language.enabled_language_features = [*features, *stricter]
    language.supported_statement_kinds = []
    return language


@cache
def _build_options() -> Any:
    from zetasql import types

    return types.AnalyzerOptions(language_options=_build_language()).to_proto()


@cache
def _build_functions() -> Any:
    from zetasql import types

    return types.ZetaSQLBuiltinFunctionOptions(language_options=_build_language()).to_proto()


class Analyzer:
    """Judges statements over `tables`: by full name the columns in Spark's words, as BigQuery holds them."""

    def __init__(self, tables: Mapping[str, Sequence[Column]], pseudo: Sequence[str] = ()) -> None:
        self._id = _register(tuple((name, tuple(columns)) for name, columns in tables.items()), tuple(pseudo))

    def check(self, statement: str) -> None:
        """Raise `Refused` unless BigQuery's grammar and types allow the statement."""
        from zetasql.core.exceptions import ZetaSQLError
        from zetasql.wasi._pb2.zetasql.local_service import local_service_pb2

        request = local_service_pb2.AnalyzeRequest(sql_statement=statement, registered_catalog_id=self._id)
        request.options.CopyFrom(_build_options())
        try:
            _load_service().wasm_client.call_grpc_func(
                "ZetaSqlLocalService_Analyze", request, local_service_pb2.AnalyzeResponse
            )
        except ZetaSQLError as error:
            raise Refused(f"{error}\n{statement}") from None


@cache  # a fifth of a second each
def _register(tables: tuple[tuple[str, tuple[Column, ...]], ...], pseudo: tuple[str, ...]) -> int:
    """The analyzer's number for a catalog of these tables."""
    from zetasql import types
    from zetasql.wasi._pb2.zetasql.local_service import local_service_pb2

    root = types.SimpleCatalog(name="", table=[], catalog=[])
    for name, columns in tables:
        *folders, last = name.split(".")
        place = root
        for folder in folders:
            place = _find_below(place, folder)
        table = types.SimpleTable(name=last, column=[_build_column(c.name, parse_type(c.type)) for c in columns])
        table.column += [_build_column(name, Primitive("TIMESTAMP"), pseudo=True) for name in pseudo]
        place.table.append(table)
    request = local_service_pb2.RegisterCatalogRequest(simple_catalog=root.to_proto())
    request.simple_catalog.builtin_function_options.CopyFrom(_build_functions())
    answer = _load_service().wasm_client.call_grpc_func(
        "ZetaSqlLocalService_RegisterCatalog", request, local_service_pb2.RegisterResponse
    )
    return int(answer.registered_id)


def _find_below(catalog: Any, name: str) -> Any:
    from zetasql import types

    sub_catalog = next((inner for inner in catalog.catalog if inner.name == name), None)
    if sub_catalog is None:
        sub_catalog = types.SimpleCatalog(name=name, table=[], catalog=[])
        catalog.catalog.append(sub_catalog)
    return sub_catalog


def _build_column(name: str, data_type: DataType, pseudo: bool = False) -> Any:
    from zetasql import types

    return types.SimpleColumn(
        name=name, type=_convert_type(to_stored_type(data_type)), is_writable_column=True, is_pseudo_column=pseudo
    )


def _convert_type(data_type: DataType) -> Any:
    from zetasql.api import TypeFactory
    from zetasql.types import TypeKind

    match data_type:
        case Array(element):
            return TypeFactory.create_array_type(_convert_type(element))
        case Struct(fields):
            return TypeFactory.create_struct_type([(name, _convert_type(inner)) for name, inner in fields])
        case Primitive() as primitive if primitive.decimal:
            precision, scale = primitive.decimal
            kind = "NUMERIC" if scale <= 9 and precision - scale <= 29 else "BIGNUMERIC"
        case Primitive(name):
            kind = KINDS[name]
    return TypeFactory.create_simple_type(getattr(TypeKind, f"TYPE_{kind}"))


if __name__ == "__main__":
    compile_once()
