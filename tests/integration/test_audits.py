"""Audits through real Kafka, Spark and Iceberg: what breaks them never reaches main."""

import pytest
from tidegate.errors import AuditFailed

KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, amount DECIMAL(12,2)"}
RIGHT = "amount >= 0 -- and not null"
UNIQUE = "WITH twice AS (SELECT id FROM {table} GROUP BY id HAVING count(*) > 1) SELECT count(*) = 0 FROM twice"


def test_batch_that_breaks_an_audit_waits_until_the_audit_or_the_data_is_corrected(workbench) -> None:
    topic = workbench.topic()
    audits = [RIGHT, UNIQUE, "SELECT sum(amount) < 100 FROM {table}"]
    workbench.pipeline("audited", [topic], key=KEY, value=VALUE, table={"audits": audits})

    def build_change(id, amount):
        return {"id": id}, {"id": id, "amount": amount}

    workbench.produce(topic, build_change(1, -1), build_change(1, 1), build_change(2, 2))
    workbench.flush("audited")
    workbench.produce(
        topic, build_change(1, None), build_change(2, -5), build_change(3, 99.5), build_change(4, 5), ({"id": 5}, None)
    )
    with pytest.raises(AuditFailed) as error_info:
        workbench.flush("audited")
    assert "audit=amount >= 0 -- and not null does not hold: rows=2" in str(error_info.value)
    assert "audit=WITH" not in str(error_info.value)
    assert [(r["id"], int(r["amount"])) for r in workbench.read_rows("shop.audited")] == [(1, 1), (2, 2)]
    assert list(workbench.load_iceberg("shop.audited").metadata.refs) == ["main", "tidegate_audited"]
    process = workbench.run_cli("flush", "audited")
    assert (process.returncode, "does not hold: rows=2" in process.stderr) == (1, True)
    workbench.pipeline("audited", [topic], key=KEY, value=VALUE, table={"audits": [UNIQUE]})
    workbench.flush("audited")
    assert [(r["id"], r["amount"] and int(r["amount"])) for r in workbench.read_rows("shop.audited")] == [
        (1, None),
        (2, -5),
        (3, 99),
        (4, 5),
    ]
    assert not [
        p for p in workbench.load_iceberg("shop.audited_audited_tmp").properties if p.startswith("tidegate.audit")
    ]


WITHOUT_ANSWER = {
    "SELECT CAST(NULL AS BOOLEAN) FROM {table}": "does not hold: it gives NULL",
    "SELECT count(*) FROM {table}": "does not hold: it gives neither true nor false",
    "SELECT 'true' FROM {table}": "does not hold: it gives neither true nor false",
    "SELECT id > 0 FROM {table} UNION ALL SELECT true": "does not hold: it gives no row, or several",
    "SELECT true FROM {table} WHERE id < 0": "does not hold: it gives no row, or several",
    "SELECT 1 / (count(*) - 1) > 0 FROM {table}": "it has no answer: [DIVIDE_BY_ZERO]",
    "SELECT count(*) > 0 FROM {table} WHERE nowhere > 0": "it has no answer: [UNRESOLVED_COLUMN",
    "amount + 1": "it has no answer: [DATATYPE_MISMATCH",
}


@pytest.mark.repeats(
    "unit/tidegate/merge/test_audits.py::test_batch_that_breaks_an_audit_is_not_published_and_stays_staged"
)
def test_audit_that_gives_no_true_or_false_is_one_error_that_is_not_tried_again(workbench) -> None:
    topic = workbench.topic()
    workbench.produce(topic, ({"id": 1}, {"id": 1, "amount": 1}))
    workbench.pipeline("odd", [topic], key=KEY, value=VALUE, table={"audits": ["id > 0"]})
    workbench.flush("odd")
    assert [row["id"] for row in workbench.read_rows("shop.odd")] == [1]
    workbench.produce(topic, ({"id": 1}, {"id": 1, "amount": 2}))
    messages = {}
    for audit in WITHOUT_ANSWER:
        workbench.pipeline("odd", [topic], key=KEY, value=VALUE, table={"audits": [audit]})
        with pytest.raises(AuditFailed) as error_info:
            workbench.flush("odd")
        messages[audit] = str(error_info.value)
        assert "nothing was published and the batch stays staged; correct the audit" in messages[audit], audit
    wrong = [
        (audit, messages[audit])
        for audit, words in WITHOUT_ANSWER.items()
        if f"audit={audit}" not in messages[audit] or words not in messages[audit]
    ]
    assert wrong == []
    workbench.pipeline("odd", [topic], key=KEY, value=VALUE, table={"audits": ["SELECT count(*) = 1 FROM {table}"]})
    workbench.flush("odd")
    assert [int(row["amount"]) for row in workbench.read_rows("shop.odd")] == [2]


@pytest.mark.repeats("unit/tidegate/merge/test_audits.py::test_condition_is_asked_of_the_rows_that_the_mode_writes")
@pytest.mark.parametrize(("mode", "rows"), [("delete", 1), ("append", 2)])
def test_condition_is_asked_of_the_rows_that_are_appended(workbench, mode: str, rows: int) -> None:
    topic = workbench.topic()
    table = {"upsert": False, "delete": mode == "delete", "audits": [RIGHT]}
    workbench.pipeline(mode, [topic], key=KEY, value=VALUE, table=table)
    workbench.produce(topic, ({"id": 1}, {"id": 1, "amount": -1}), ({"id": 1}, None), ({"id": 2}, {"id": 2}))
    with pytest.raises(AuditFailed, match=f"rows={rows};"):
        workbench.flush(mode)
