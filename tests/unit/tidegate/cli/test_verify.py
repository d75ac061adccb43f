"""`tidegate verify` of several tables: one that is refused keeps no other from being compared, or repaired."""

import json
from typing import Any

import pytest
from fakes import World, build_pipeline, build_table
from tidegate.cli.commands import verify
from tidegate.cli.parser import build_parser
from tidegate.errors import RetryLater, SomeTables, TidegateError, Unverifiable
from tidegate.reprocess.verify import Verification

FIRST, SECOND = "lake.shop.First", "lake.shop.second"


def verified(table: str, different: int = 0) -> Verification:
    return Verification(
        table=table, at_ms=0, position={"t": {0: 3, 1: 4}}, snapshot_id=42, sample_per_million=1_000_000,
        equal=7, missing=0, surplus=0, different=different, unknowable=0,
    )  # fmt: skip


def run(monkeypatch: pytest.MonkeyPatch, known: dict[str, Verification | TidegateError], *words: str) -> int:
    def verify_table(session: Any, name: str, *_: Any) -> Verification:
        result = known[name]
        if isinstance(result, TidegateError):
            raise result
        return result

    session = World().open_session(build_pipeline(build_table(FIRST), build_table(SECOND)))
    monkeypatch.setattr(verify, "open_named_pipeline", lambda words: session)
    monkeypatch.setattr(verify, "verify_table", verify_table)
    return verify.run_verify(build_parser().parse_args(["verify", "orders", *words]))


@pytest.mark.parametrize("refused", [FIRST, SECOND])
def test_refused_table_keeps_no_other_from_being_compared(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], refused: str
) -> None:
    other = SECOND if refused == FIRST else FIRST
    known = {refused: Unverifiable("no upsert"), other: verified(other)}
    for _ in range(2):
        with pytest.raises(Unverifiable, match="no upsert"):
            run(monkeypatch, known)
        assert capsys.readouterr().out.startswith(f"{other}: equal=7")
    with pytest.raises(Unverifiable):
        run(monkeypatch, known, "--json")
    answer = json.loads(capsys.readouterr().out)
    assert [(table["table"], table["equal"]) for table in answer["tables"]] == [(other, 7)]
    assert answer["refused"] == [{"table": refused, "because": "no upsert"}]


def test_table_beside_a_refused_one_is_repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    repaired = list[str]()
    monkeypatch.setattr(verify, "propose_repair", lambda session, wrong: [one.table for one in wrong])
    monkeypatch.setattr(verify, "perform_action", lambda words, action: repaired.extend(action) or 0)
    with pytest.raises(RetryLater, match="catalog"):
        run(monkeypatch, {FIRST: RetryLater("catalog"), SECOND: verified(SECOND, different=1)}, "--repair", "--yes")
    assert repaired == [SECOND]


def test_where_all_are_refused_both_reasons_are_told_and_nothing_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    known: dict[str, Verification | TidegateError] = {FIRST: Unverifiable("one"), SECOND: RetryLater("two")}
    with pytest.raises(SomeTables, match="one\ntwo"):
        run(monkeypatch, known, "--json")
    assert capsys.readouterr().out == ""


def test_tables_that_are_all_compared_are_printed_as_before(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    known: dict[str, Verification | TidegateError] = {FIRST: verified(FIRST), SECOND: verified(SECOND, different=1)}
    assert run(monkeypatch, known, "--json") == 1
    answer = json.loads(capsys.readouterr().out)
    assert ([table["different"] for table in answer["tables"]], answer["refused"]) == ([0, 1], [])
