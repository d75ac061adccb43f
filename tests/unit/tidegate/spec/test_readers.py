"""What `readers` says of an engine is what the newest run of `make test-engines` saw."""

import re

import pytest
from conftest import ROOT
from tidegate.spec.readers import READERS, describe_readers

NEWEST_RUN = ROOT / "benchmarks" / "results" / "engines.md"
PROVED = {name: support for name, support in READERS.items() if support.proved}


def find_section(engine: str) -> str:
    (section,) = re.findall(rf"<!-- {engine}: .*?<!-- end of {engine} -->", NEWEST_RUN.read_text(), re.DOTALL)
    return section


@pytest.mark.parametrize("name", PROVED)
def test_version_that_was_proved_is_that_of_the_newest_run_and_reads_each_state_of_its_format(name: str) -> None:
    (title,) = re.findall(r"^## (.*)$", find_section(name), re.MULTILINE)
    for part in PROVED[name].proved.split(" with "):
        assert part in title
    cells = [line.split("|")[2:-1] for line in find_section(name).splitlines() if line.startswith("| ")]
    assert [cell.strip() for cell in cells[0]] == ["format 2", "format 2, then 3", "format 3"]
    assert len(cells) == 12
    by_format = [[row[number] for row in cells[2:]] for number in range(3)]
    for number, column in enumerate(by_format):
        assert not any("WRONG" in cell for cell in column)
        is_refused = any("refused" in cell for cell in column)
        assert is_refused == (number > 0 and PROVED[name].newest_format < 3), column


def test_engines_that_were_run_are_named_with_their_versions() -> None:
    words = describe_readers(3)
    assert words.startswith("format 3 is read by: databricks, duckdb (tried: 1.5.5), flink (tried: ")
    assert ", snowflake, spark (tried: 4.1 with Iceberg 1.12.0), trino; not by: athena (reads no vectors" in words
    assert words.endswith(", clickhouse (reads no vectors of deletes in version 26.9)")
