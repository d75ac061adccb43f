"""`tidegate explain` of several tables: one that is refused takes no other's answer away."""

import json
from dataclasses import replace
from typing import Any

import pytest
from fakes import World, build_pipeline, build_table
from tidegate.cli.commands import verify
from tidegate.cli.parser import build_parser
from tidegate.errors import ConfigurationError, NothingToDo, RetryLater, SomeTables, TidegateError, Unverifiable
from tidegate.reprocess.explained_key import Cause, ExplainedRecord, Explanation
from tidegate.reprocess.request import propose_action
from tidegate.reprocess.verify import Difference

FIRST, SECOND = "lake.shop.First", "lake.shop.second"
ANSWER = Explanation(
    table="", key={"Id": 7}, position={"t": {0: 3, 1: 4}}, snapshot_id=42, row_count=0, rows=(), cause=Cause.NEVER,
    because="the log has no record of it", decided_by=None, records=(), record_count=0, limits=(), differences=(),
    other_tables=(),
)  # fmt: skip


def run(monkeypatch: pytest.MonkeyPatch, refusals: dict[str, TidegateError], *words: str) -> int:
    def explain_key(session: Any, name: str, *_: Any) -> Explanation:
        if name in refusals:
            raise refusals[name]
        return replace(ANSWER, table=name)

    session = World().open_session(build_pipeline(build_table(FIRST), build_table(SECOND)))
    monkeypatch.setattr(verify, "open_named_pipeline", lambda words: session)
    monkeypatch.setattr("tidegate.reprocess.explain.explain_key", explain_key)
    return verify.run_explain(build_parser().parse_args(["explain", "orders", "7", *words]))


@pytest.mark.parametrize("refused", [FIRST, SECOND])
def test_refused_table_takes_no_other_answer_away(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], refused: str
) -> None:
    other = SECOND if refused == FIRST else FIRST
    refusals: dict[str, TidegateError] = {refused: Unverifiable("no\x1b row")}
    assert run(monkeypatch, refusals) == 1
    lines = capsys.readouterr().out.splitlines()
    assert (lines[0], lines[-1].startswith(f"{refused}: not explained: no")) == (
        f'{other}: no row of key={{"Id": 7}}',
        True,
    )
    assert "\x1b" not in lines[-1]
    assert run(monkeypatch, refusals, "--json") == 1
    answer = json.loads(capsys.readouterr().out)
    assert [entry["table"] for entry in answer["tables"]] == [other]
    assert answer["refused"] == [{"table": refused, "because": "no\x1b row"}]
    assert run(monkeypatch, refusals, "--table", other) == run(monkeypatch, {}) == 0


def test_where_none_is_explained_the_command_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    both: dict[str, TidegateError] = {FIRST: ConfigurationError("one"), SECOND: RetryLater("two")}
    with pytest.raises(SomeTables, match="one\ntwo"):
        run(monkeypatch, both)
    with pytest.raises(ConfigurationError, match="one"):
        run(monkeypatch, {FIRST: both[FIRST]}, "--table", FIRST)


def test_form_gets_the_answer_without_a_value_of_row_or_record(monkeypatch: pytest.MonkeyPatch) -> None:
    record = ExplainedRecord(
        topic="t", partition=0, offset=2, i=0, at_ms=0, fate="staged", op="u", reason=None, value="secret",
        is_ahead=False, effect="wrote the row",
    )  # fmt: skip
    known = replace(
        ANSWER,
        row_count=1,
        rows=("secret",),
        records=(record,),
        record_count=1,
        differences=(Difference("different", "7", "Name", "secret", "secret"),),
    )
    monkeypatch.setattr("tidegate.reprocess.explain.explain_key", lambda session, name, *_: replace(known, table=name))
    session = World().open_session(build_pipeline(build_table(FIRST), build_table(SECOND)))
    with pytest.raises(NothingToDo) as found:
        propose_action(session, {"action": "explain", "key": "7", "table": SECOND, "preview": True})
    assert str(found.value).splitlines() == [
        f'{SECOND}: a row of key={{"Id": 7}}',
        "  never: the log has no record of it",
        "  differs: Name",
        "  t:0:2 1970-01-01T00:00:00.000Z row wrote the row",
    ]
    with pytest.raises(ConfigurationError, match="action=explain: missing parameter: key"):
        propose_action(session, {"action": "explain"})
