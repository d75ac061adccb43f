"""``python read_files.py ENGINE REQUESTS``: a process of its own, in which one engine reads metadata files.

REQUESTS is a file with a list of {"metadata": path, "rows": path}: rows are written as Arrow's stream, or the engine's
words of refusal to the same path with `.refused`. The first line that it prints is the engine's version. It imports
the engine and Arrow alone, so that what the engine's package brings meets nothing of the product.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def open_duckdb() -> tuple[str, Callable[[Path], Any]]:
    """DuckDB with the extensions that its packages hold."""
    import duckdb

    connection = duckdb.connect(config={"autoinstall_known_extensions": False, "autoload_known_extensions": False})
    packages = Path(duckdb.__file__).parents[1]
    for name in ("avro", "icu", "iceberg"):
        (extension,) = packages.glob(f"duckdb_extension_{name}/extensions/*/{name}.duckdb_extension")
        connection.load_extension(str(extension))
    connection.execute("SET TimeZone = 'UTC'")

    def read(metadata: Path) -> Any:
        return connection.execute("SELECT * FROM iceberg_scan(?)", [str(metadata)]).to_arrow_table()

    return f"DuckDB {duckdb.__version__} with its Iceberg extension", read


def open_clickhouse() -> tuple[str, Callable[[Path], Any]]:
    """ClickHouse as a library."""
    import chdb
    import pyarrow

    os.chdir("/")  # it reads below its working folder alone

    def run(statement: str, form: str) -> Any:
        return chdb.query(statement, form)

    def read(metadata: Path) -> Any:
        folder = metadata.parent.parent
        place = f"'{folder}', SETTINGS iceberg_metadata_file_path = 'metadata/{metadata.name}'"
        conf = "session_timezone = 'UTC', output_format_arrow_string_as_string = 0"
        statement = f"SELECT * FROM icebergLocal({place}) SETTINGS {conf}"
        answer = run(statement, "ArrowStream").bytes()
        return pyarrow.ipc.open_stream(answer).read_all()

    version = run("SELECT version()", "TSV").bytes().decode().strip()
    return f"ClickHouse {version} (chdb)", read


ENGINES = {"duckdb": open_duckdb, "clickhouse": open_clickhouse}


def main(name: str, requests: str) -> None:
    import pyarrow

    version, read = ENGINES[name]()
    print(version, flush=True)
    for request in json.loads(Path(requests).read_text()):
        rows = Path(request["rows"])
        try:
            table = read(Path(request["metadata"]))
        except Exception as error:
            rows.with_suffix(".refused").write_text(f"{type(error).__name__}: {error}")
            continue
        with pyarrow.OSFile(str(rows), "wb") as file, pyarrow.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table)


if __name__ == "__main__":
    main(*sys.argv[1:])
