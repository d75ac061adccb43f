"""Every reason not to read on from a position: each says what happened, with which values, and the way out."""

import re
import shlex
from dataclasses import replace

import pytest
from fakes import build_pipeline, build_session, build_table
from tidegate.errors import PositionLost, RetryLater
from tidegate.model.kafka_log import Log
from tidegate.model.position import Position
from tidegate.model.table_state import NO_TOPIC_ID, TableState
from tidegate.table.position import build_unanswered_error, check_log, resolve_next_start, resolve_position

TABLE = build_table()
PIPELINE = build_pipeline(TABLE)
OLD, NEW = Position({"orders": {0: 10}}, batch=1), Position({"orders": {0: 20}}, batch=2)


def build_log(begin: int = 0, end: int = 100, cluster: str = "c1", topic_id: str = "i1") -> Log:
    return Log(cluster, {"orders": topic_id}, {"orders": {0: begin}}, {"orders": {0: end}})


def build_state(position: Position | None, *, rolled_back: bool) -> TableState:
    return TableState("u", 1, 0, position, 2, (), rolled_back, NEW)


def explain_loss(position: Position, log: Log) -> str:
    with pytest.raises(PositionLost) as error_info:
        check_log(build_session(PIPELINE, TABLE), position, log)
    return str(error_info.value)


def check_message(message: str, sentence: str, *values: str, way_out: str = "tidegate rebase") -> None:
    """What happened, `name=value` for all that is needed to look it up, and what to do next."""
    for part in (sentence, *values, way_out, "pipeline=shop", "table=lake.shop.orders"):
        assert part in message


def test_table_that_is_missing_has_no_position() -> None:
    assert resolve_position(build_session(PIPELINE, TABLE, None)) is None


def test_position_of_a_sound_table_is_its_own() -> None:
    assert resolve_position(build_session(PIPELINE, TABLE, build_state(NEW, rolled_back=False))) == NEW


@pytest.mark.guard(
    "BigQuery: a pipeline does not start again when its position is lost",
    file="plugins/tidegate/table/position.py",
    text="    if state.is_position_lost:\n",
    off="    if False:\n",
    case="keep",
)
@pytest.mark.parametrize("choice", ["fail", "rewind", "keep"])
def test_lost_position_is_not_begun_anew_whatever_answers_a_rollback(choice: str) -> None:
    state = replace(
        build_state(None, rolled_back=False), recorded_position=None, snapshot_id=None, is_position_lost=True
    )
    with pytest.raises(PositionLost) as error_info:
        resolve_position(build_session(build_pipeline(TABLE, on_rollback=choice), TABLE, state))
    check_message(
        str(error_info.value),
        "its position is gone",
        f"{TABLE.name}_tidegate_position",
        way_out="rebase shop --to group",
    )


@pytest.mark.parametrize(("choice", "position"), [("rewind", OLD), ("keep", NEW)])
def test_rollback_is_answered_as_configured(choice: str, position: Position) -> None:
    pipeline = build_pipeline(TABLE, on_rollback=choice)
    assert resolve_position(build_session(pipeline, TABLE, build_state(OLD, rolled_back=True))) == position


def test_rollback_fails_by_default_and_names_both_ways_out() -> None:
    with pytest.raises(PositionLost) as error_info:
        resolve_position(build_session(PIPELINE, TABLE, build_state(OLD, rolled_back=True)))
    check_message(str(error_info.value), "was rolled back", "undo-rollback shop --table", "--rewind", way_out="--keep")


@pytest.mark.parametrize(
    ("table_position", "ways_out"),
    [
        (NEW, {"--keep": "so no published row is missing"}),
        (OLD, {"--keep": "or go on after them", "--rewind": "the table was rolled back"}),
        (None, {"--keep": "if it was not", "rebase shop --to earliest": "if it was"}),
    ],
)
def test_tag_that_somebody_dropped_is_named_and_undo_which_needs_it_is_not(
    table_position: Position | None, ways_out: dict[str, str]
) -> None:
    state = replace(build_state(table_position, rolled_back=True), is_untagged=True)
    with pytest.raises(PositionLost) as error_info:
        resolve_position(build_session(PIPELINE, TABLE, state))
    for way_out, reason in ways_out.items():
        check_message(
            str(error_info.value),
            "the tag tidegate_shop of its last published snapshot is gone",
            reason,
            way_out=way_out,
        )
    assert "undo-rollback" not in str(error_info.value)
    assert ("--rewind" in str(error_info.value)) == ("--rewind" in ways_out)


@pytest.mark.parametrize("choice", ["fail", "rewind"])
def test_rows_that_were_picked_since_a_rollback_are_named_and_not_read_again_unasked(choice: str) -> None:
    state = replace(build_state(None, rolled_back=True), cherry_picked_batch=7)
    with pytest.raises(PositionLost) as error_info:
        resolve_position(build_session(build_pipeline(TABLE, on_rollback=choice), TABLE, state))
    check_message(str(error_info.value), "batch=7 were picked onto main", "--discard-foreign", way_out="--keep")
    assert "--rewind" not in str(error_info.value)


def test_rewind_without_a_snapshot_to_rewind_to_fails_instead_of_starting_over() -> None:
    with pytest.raises(PositionLost, match="was rolled back"):
        resolve_position(
            build_session(build_pipeline(TABLE, on_rollback="rewind"), TABLE, build_state(None, rolled_back=True))
        )


@pytest.mark.parametrize("offset", [0, 100])
def test_position_anywhere_in_the_log_holds(offset: int) -> None:
    check_log(
        build_session(PIPELINE, TABLE),
        Position({"orders": {0: offset}}, cluster_id="c1", topic_ids={"orders": "i1"}),
        build_log(),
    )


def test_position_without_recorded_ids_holds() -> None:
    check_log(build_session(PIPELINE, TABLE), OLD, build_log())


@pytest.mark.guard(
    "brokers of another cluster are not read",
    file="plugins/tidegate/table/position.py",
    text="    if is_another_cluster(position.cluster_id, log.cluster_id):\n",
    off="    if False:\n",
)
def test_brokers_of_another_cluster_are_not_read() -> None:
    message = explain_loss(Position({"orders": {0: 10}}, cluster_id="c1"), build_log(cluster="c2"))
    check_message(message, "another cluster", "cluster_id=c2", "recorded=c1")


@pytest.mark.guard(
    "a topic that was created again is another one",
    file="plugins/tidegate/table/position.py",
    text="    if topic_id != recorded:\n",
    off="    if False:\n",
)
def test_recreated_topic_is_not_read_as_if_its_offsets_meant_the_same_records() -> None:
    message = explain_loss(Position({"orders": {0: 10}}, topic_ids={"orders": "i1"}), build_log(topic_id="i2"))
    check_message(message, "deleted and created again", "topic=orders", "topic_id=i2", "recorded=i1")


def test_retention_that_passed_the_position_is_told_with_the_number_of_lost_offsets() -> None:
    message = explain_loss(Position({"orders": {0: 10}}), build_log(begin=25))
    check_message(message, "15 offsets are gone", "partition=0", "position=10", "offset=25")
    assert "retention" in message


@pytest.mark.guard(
    "a log that has lost the next records is refused",
    file="plugins/tidegate/table/position.py",
    text="    if lost_offsets:\n",
    off="    if False:\n",
)
def test_one_lost_offset_is_one_too_many() -> None:
    assert "so 1 offset is gone" in explain_loss(Position({"orders": {0: 10}}), build_log(begin=11))


def test_retention_exactly_at_the_position_lost_nothing() -> None:
    check_log(build_session(PIPELINE, TABLE), Position({"orders": {0: 25}}), build_log(begin=25))


@pytest.mark.guard(
    "a log that ends before the position is refused",
    file="plugins/tidegate/table/position.py",
    text="    if end < offset:\n",
    off="    if False:\n",
)
def test_log_that_ends_before_the_position_is_not_waited_for() -> None:
    check_message(
        explain_loss(Position({"orders": {0: 101}}), build_log()), "ends at offset=100", "position=101", "partition=0"
    )


def test_partition_that_the_log_does_not_have_is_named() -> None:
    check_message(explain_loss(Position({"orders": {1: 5}}), build_log()), "partition=1", "no such partition")


@pytest.mark.parametrize(
    ("offsets", "to"), [({"gone": {0: 5}}, "earliest"), ({"gone": {0: 5}, "orders": {0: 9}}, "'{\"orders\": {}}'")]
)
def test_topic_that_is_not_read_any_more_is_named_with_a_move_that_leaves_the_others(offsets: dict, to: str) -> None:
    check_message(
        explain_loss(Position(offsets), build_log()),
        "topic=gone is not read any more",
        f"tidegate rebase shop --to {to}",
    )


def test_damage_to_a_topic_that_is_read_is_told_before_one_that_is_not() -> None:
    check_message(
        explain_loss(Position({"gone": {0: 5}, "orders": {0: 101}}), build_log()), "ends at offset=100", "--to earliest"
    )


GROWN = Log("c1", {}, {"orders": {0: 0, 1: 3}}, {"orders": {0: 50, 1: 9}})


@pytest.mark.guard(
    "more partitions are refused where offsets order a key's records",
    file="plugins/tidegate/table/position.py",
    text="    if new_partitions and ordered_by_offset and",
    off="    if False and",
)
@pytest.mark.parametrize("mode", ["upsert_delete", "upsert", "delete"])
def test_partition_growth_is_refused_where_offsets_order_keys(mode: str) -> None:
    with pytest.raises(PositionLost) as error_info:
        resolve_next_start(build_session(PIPELINE, build_table(mode=mode)), OLD, GROWN)
    check_message(str(error_info.value), "new partition=1", "topic=orders", way_out="on_partition_growth: accept")


def test_growth_is_harmless_where_sequences_order_keys() -> None:
    assert resolve_next_start(build_session(PIPELINE, build_table(sequence_by=("name",))), OLD, GROWN) == {
        "orders": {0: 10, 1: 3}
    }


def test_accepted_growth_starts_at_the_logs_begin() -> None:
    accepting = build_pipeline(TABLE, on_partition_growth="accept")
    assert resolve_next_start(build_session(accepting, TABLE), OLD, GROWN) == {"orders": {0: 10, 1: 3}}


def test_append_has_no_order_of_keys_to_lose_to_growth() -> None:
    assert resolve_next_start(build_session(PIPELINE, build_table(mode="append")), OLD, GROWN) == {
        "orders": {0: 10, 1: 3}
    }


def test_new_topic_under_a_pattern_starts_at_its_begin_and_is_no_growth() -> None:
    log = Log("c1", {}, {"orders": {0: 0}, "orders2": {0: 4}}, {"orders": {0: 50}, "orders2": {0: 9}})
    assert resolve_next_start(build_session(PIPELINE, TABLE), OLD, log) == {"orders": {0: 10}, "orders2": {0: 4}}


def split_as_shell(command: str) -> list[str]:
    words = shlex.shlex(command, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    return list(words)


def test_table_whose_name_a_shell_would_take_apart_is_one_word_of_the_commands() -> None:
    table = build_table("lake.shop.orders(eu)&b")
    pipeline = build_pipeline(table, build_table("lake.shop.other"))
    known, unknown = (build_state(position, rolled_back=True) for position in (OLD, None))
    for state in (known, unknown, replace(unknown, is_untraceable=True), replace(known, is_untagged=True)):
        with pytest.raises(PositionLost) as error_info:
            resolve_position(build_session(pipeline, table, state))
        commands = re.findall(r"tidegate [a-z-]+ shop .*?(?=;|$| \()", str(error_info.value))
        assert len(commands) >= 2
        assert all(split_as_shell(command)[3:5] == ["--table", table.name] for command in commands)
    assert f"--table '{table.name}'" in str(build_unanswered_error(build_session(pipeline, table)))


def test_rollback_that_cannot_be_told_apart_from_expiry_says_so() -> None:
    unclear = TableState("u", 1, 0, None, 2, (), is_rolled_back=True, recorded_position=NEW, is_untraceable=True)
    with pytest.raises(PositionLost) as error_info:
        resolve_position(build_session(build_pipeline(TABLE, on_rollback="rewind"), TABLE, unclear))
    check_message(str(error_info.value), "it is not known", 'position={"orders": {"0": 20}}', "--keep")
    assert resolve_position(build_session(build_pipeline(TABLE, on_rollback="keep"), TABLE, unclear)) == NEW


def test_rollback_with_nothing_to_rewind_to_names_what_is_left_to_do() -> None:
    with pytest.raises(PositionLost) as error_info:
        resolve_position(
            build_session(build_pipeline(TABLE, on_rollback="rewind"), TABLE, build_state(None, rolled_back=True))
        )
    check_message(str(error_info.value), "no snapshot of main has a position", "--keep")


@pytest.mark.guard(
    "fewer partitions than before are a partial answer",
    file="plugins/tidegate/table/position.py",
    text="    if log_partitions and missing:\n",
    off="    if False:\n",
)
def test_fewer_partitions_than_a_topic_had_are_a_partial_answer_and_no_reason_to_move_the_position() -> None:
    log = Log("c1", {"orders": "i1"}, {"orders": {0: 0}}, {"orders": {0: 100}})
    with pytest.raises(RetryLater, match=r"partition=1: .* partitions=\[0\] only"):
        check_log(build_session(PIPELINE, TABLE), Position({"orders": {0: 10, 1: 10}}, topic_ids={"orders": "i1"}), log)


def test_topic_whose_id_is_not_told_now_was_not_created_again() -> None:
    with pytest.raises(RetryLater, match="topic=orders: the brokers do not return its id now, recorded=i1"):
        check_log(
            build_session(PIPELINE, TABLE),
            Position({"orders": {0: 10}}, topic_ids={"orders": "i1"}),
            build_log(topic_id=NO_TOPIC_ID),
        )


def test_topic_whose_id_was_not_told_before_is_read_on() -> None:
    check_log(
        build_session(PIPELINE, TABLE), Position({"orders": {0: 10}}, topic_ids={"orders": NO_TOPIC_ID}), build_log()
    )
