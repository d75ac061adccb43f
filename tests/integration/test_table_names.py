"""Tables and namespaces of any name that a pipeline file takes, through real Kafka, Spark and Iceberg."""

from typing import Any

SPACE = "näm😀space"
SEQUENCED, APPENDED = {"sequence_by": ["seq"]}, {"upsert": False, "delete": False}
# right to left, as catalogs and Spark use them, in paths, and as long as their own tables leave room for
MODES: dict[str, dict[str, Any]] = {
    "größe": {}, "😀🙂": SEQUENCED, "שלום": APPENDED, "select": {**SEQUENCED, "history": "scd2"}, "Orders": {},
    "files": SEQUENCED, "branch_main": APPENDED, "a%20b%": {}, "a:b;c": SEQUENCED, "a*[b]&=+,(c)": {}, "-x": APPENDED,
    "x" * 200: SEQUENCED,
}  # fmt: skip


def test_tables_of_odd_names_are_flushed_and_maintained(workbench: Any) -> None:
    topic = workbench.topic(2)
    tables = [{"name": f"lake.{SPACE}.{name}", **mode} for name, mode in MODES.items()]
    key, value = {"fields": ["id"], "schema": "id BIGINT"}, {"schema": "id BIGINT, name STRING, seq BIGINT"}
    workbench.pipeline("odd", [topic], key=key, value=value, tables=tables, source={"errors": {"tolerance": "all"}})

    def send(*records: tuple[int, str | None, int]) -> None:
        workbench.produce(
            topic, *(({"id": i}, name and {"id": i, "name": name, "seq": seq}) for i, name, seq in records)
        )

    send((1, "a", 1), (2, "b", 1), (3, "c", 1))
    workbench.produce(topic, ({"id": 9}, b"not json"))
    workbench.flush("odd")
    send((1, "d", 2), (2, None, 0), (4, "e", 1))
    workbench.flush("odd")
    for name, mode in MODES.items():
        names = [row["name"] for row in workbench.read_rows(f"{SPACE}.{name}")]
        kept_names = {"a", "b"} if mode is APPENDED or "history" in mode else set()
        assert set(names) == kept_names | {"c", "d", "e"}, name
    maintained = workbench.run_cli("maintain", "odd")
    assert maintained.returncode == 0, maintained.stderr
    assert len(workbench.read_rows(f"{SPACE}.tidegate_odd_dead_letters")) == len(MODES)
    assert len(workbench.read_rows(f"{SPACE}.tidegate_odd_batches")) == 2 * len(MODES)
