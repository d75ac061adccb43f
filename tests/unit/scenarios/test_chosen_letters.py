"""Dead letters are chosen by what people know of them: some are replayed, some discarded, and the rest wait."""

import json

import pytest
from fakes import BAD, World, build_pipeline, build_table
from tidegate.cli.commands import dead_letters
from tidegate.cli.parser import build_parser
from tidegate.errors import ConfigurationError, GiveUp, NothingToDo, PositionLost, RetryLater, SomeTablesFailed
from tidegate.flush.flush import flush
from tidegate.merge.owed import LetterFilter
from tidegate.model.table_state import TableCommit, WaitingLetter
from tidegate.monitoring.status import read_status
from tidegate.reprocess.discard import discard_dead_letters, propose_discard, propose_discards, split_into_statements
from tidegate.reprocess.rebase import propose_rebase
from tidegate.reprocess.replay import replay_dead_letters
from tidegate.spec.source import Errors

ORDERS, COPY, LETTERS = "lake.shop.orders", "lake.shop.copy", "lake.shop.tidegate_shop_dead_letters"
ASIDE = Errors("all")
PIPELINE = build_pipeline(build_table(ORDERS, errors=ASIDE), build_table(COPY, errors=ASIDE))
BAD_PLACES = [("orders", partition, offset) for partition in (0, 1) for offset in (1, 2, 4, 10)]


@pytest.fixture
def world() -> World:
    """Two tables with eight dead letters each, in two partitions, among good records."""
    world = World()
    world.broker.create("orders", 2)
    for partition in (0, 1):
        for offset in range(11):
            key = f"{partition}-{offset}"
            value = BAD if ("orders", partition, offset) in BAD_PLACES else {"id": key, "name": "1"}
            world.broker.produce("orders", {"id": key}, value, partition)
            world.engine.fixed_values[offset] = {"id": key, "name": "corrected"}
    flush(world.open_session(PIPELINE))
    return world


def build_filter(*places: tuple[int, int], table: str | None = None) -> LetterFilter:
    return LetterFilter(table=table, places=frozenset(("orders", partition, offset) for partition, offset in places))


def list_waiting_places(world: World, table: str = ORDERS) -> list[tuple[int, int]]:
    letters = world.destination.list_waiting_letters(LETTERS, table)
    return sorted((letter.partition, letter.offset) for letter in letters)


def count_corrected_rows(world: World, table: str = ORDERS) -> int:
    return sum(row["name"] == "corrected" for row in world.read_rows(table))


def test_only_the_chosen_letters_are_replayed_also_those_that_lie_between_others(world: World) -> None:
    (result,) = replay_dead_letters(world.open_session(PIPELINE), build_filter((0, 1), (0, 4), (1, 10), table=ORDERS))
    assert (result.table, result.tried, result.replayed, result.still_bad) == (ORDERS, 3, 3, 0)
    assert list_waiting_places(world) == [(0, 2), (0, 10), (1, 1), (1, 2), (1, 4)]
    assert len(list_waiting_places(world, COPY)) == len(BAD_PLACES)
    assert replay_dead_letters(world.open_session(PIPELINE), build_filter((0, 1), table=ORDERS)) == []
    results = replay_dead_letters(world.open_session(PIPELINE))
    assert [(result.table, result.tried) for result in results] == [(ORDERS, 5), (COPY, 8)]
    assert list_waiting_places(world) == list_waiting_places(world, COPY) == []


@pytest.mark.parametrize("failing", [ORDERS, COPY])
def test_table_whose_letters_cannot_be_replayed_holds_up_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], failing: str
) -> None:
    other = COPY if failing == ORDERS else ORDERS
    world.destination.rollback(failing, world.destination.tables[failing].ancestors()[1].id)
    monkeypatch.setattr(dead_letters, "open_named_pipeline", lambda words: world.open_session(PIPELINE))
    words = build_parser().parse_args(["dead-letters", "shop", "--replay", "--json"])
    with pytest.raises(SomeTablesFailed, match=f"table={failing}") as failed:
        dead_letters.run_dead_letters(words)
    (line,) = capsys.readouterr().out.splitlines()
    assert (json.loads(line)["table"], json.loads(line)["replayed"]) == (other, 8)
    assert [result.table for result in failed.value.published] == [other]
    assert (len(list_waiting_places(world, failing)), list_waiting_places(world, other)) == (8, [])
    assert count_corrected_rows(world, other) == 8
    with pytest.raises(PositionLost, match=f"table={failing}"):
        dead_letters.run_dead_letters(words)
    assert (capsys.readouterr().out, count_corrected_rows(world, failing)) == ("", 0)


def test_replay_of_a_table_that_the_file_does_not_name_is_refused(world: World) -> None:
    """It said that none of the chosen letters waited, and was a success."""
    for name in ("lake.shop.Orders", "lake.shop.renamed"):
        with pytest.raises(ConfigurationError, match=f"has no table={name}; it has: {ORDERS}"):
            replay_dead_letters(world.open_session(PIPELINE), LetterFilter(table=name))
    assert len(list_waiting_places(world)) == len(BAD_PLACES)


def test_chosen_letters_that_lie_in_too_many_places_are_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.reprocess.replay.MAX_CHOSEN_GROUPS", 2)
    with pytest.raises(GiveUp, match=r"in groups=3.*choose letters of at most 2 groups.*or replay all"):
        replay_dead_letters(world.open_session(PIPELINE), build_filter((0, 1), (0, 4), (1, 10), table=ORDERS))
    assert len(list_waiting_places(world)) == len(BAD_PLACES)


def test_a_hundred_thousand_letters_are_discarded_by_few_statements() -> None:
    """Each of 500 statements rewrote the table of letters."""
    places = [
        (topic_id, partition, offset)
        for topic_id in ("new", None)
        for partition in range(5)
        for offset in range(10_000)
    ]
    letters = [WaitingLetter("orders", partition, offset, topic_id) for topic_id, partition, offset in places]
    letters.sort(key=lambda letter: (letter.topic, letter.partition, letter.topic_id or "", letter.offset))
    statements = split_into_statements(letters)
    assert [len(part) for part in statements] == [20_000] * 5
    assert [letter for part in statements for letter in part] == letters
    assert split_into_statements(letters[40_000:]) == statements[2:]
    spread = [WaitingLetter("orders", partition, 0, None) for partition in range(1100)]
    assert [len(part) for part in split_into_statements(spread)] == [500, 500, 100]


def test_discarded_letters_wait_no_longer_and_say_why_and_who(world: World) -> None:
    session = world.open_session(PIPELINE)
    proposals = propose_discards(session, build_filter((0, 2), (1, 4)))
    assert [(discard.table.name, len(discard.letters)) for discard in proposals] == [(ORDERS, 2), (COPY, 2)]
    assert len(list_waiting_places(world)) == len(BAD_PLACES)
    for because, by in (("test records", "ann"), ("test records, said twice", "bob")):
        for proposal in proposals:
            discard_dead_letters(session, proposal, because, by)
    assert (
        list_waiting_places(world)
        == list_waiting_places(world, COPY)
        == [(0, 1), (0, 4), (0, 10), (1, 1), (1, 2), (1, 10)]
    )
    letters = world.destination.read_dead_letters(LETTERS, 100)
    assert (letters.waiting, letters.replayed, letters.discarded) == (12, 0, 4)
    rows = [row for row in world.destination.tables[LETTERS].read_rows() if row["stage"] == "discarded"]
    assert {row["message"] for row in rows} == {"discarded by ann: test records; it was: not readable"}
    assert {row["value"] for row in rows} == {BAD}
    table_statuses = {table["table"]: table["actions"] for table in read_status(session)["tables"]}
    assert table_statuses[ORDERS][-1]["details"] == "dead_letters=2 because: test records"
    assert (table_statuses[COPY][-1]["action"], table_statuses[COPY][-1]["by"]) == ("discard", "ann")
    replay_dead_letters(session)
    assert world.destination.read_dead_letters(LETTERS, 0).replayed == 12
    assert "0-2" not in [row["id"] for row in world.read_rows(ORDERS)]


def test_discarded_letters_stay_so_where_their_records_are_read_again(world: World) -> None:
    session = world.open_session(PIPELINE)
    propose_discard(session, build_filter((0, 2), (1, 4), table=ORDERS), "test").perform("ann")
    waiting = [places for places in list_waiting_places(world, COPY) if places not in ((0, 2), (1, 4))]
    for _ in range(2):
        propose_rebase(session, "earliest").perform("bob")
        flush(session)
        assert list_waiting_places(world) == waiting
        assert len(list_waiting_places(world, COPY)) == len(BAD_PLACES)
        rows = [row for row in world.read_rows(LETTERS) if row["stage"] == "discarded"]
        assert [row["message"] for row in rows] == ["discarded by ann: test; it was: not readable"] * 2
    with pytest.raises(NothingToDo):
        propose_discards(session, build_filter((0, 2), (1, 4), table=ORDERS))


def test_letters_are_chosen_by_topic_reason_time_and_table(world: World) -> None:
    session = world.open_session(PIPELINE)
    write_time = world.destination.list_waiting_letters(LETTERS, ORDERS)[0].written_at
    assert write_time is not None
    at_ms = int(write_time.timestamp() * 1000)

    def count(letter_filter: LetterFilter) -> int:
        return sum(len(discard.letters) for discard in propose_discards(session, letter_filter))

    assert count(LetterFilter()) == 16
    assert count(LetterFilter(table=COPY, topic="orders", reason="NOT READ", since_ms=at_ms)) == 8
    for nothing in (
        LetterFilter(topic="others"),
        LetterFilter(reason="too large"),
        LetterFilter(since_ms=at_ms + 10**6),
    ):
        with pytest.raises(NothingToDo, match="no dead letter that waits is chosen"):
            count(nothing)
    with pytest.raises(ConfigurationError, match=r"has no table=lake\.shop\.strange"):
        count(LetterFilter(table="lake.shop.strange"))


def test_letters_are_not_discarded_without_a_reason(world: World) -> None:
    session = world.open_session(PIPELINE)
    with pytest.raises(ConfigurationError, match="say why"):
        propose_discard(session, build_filter((0, 1)), " ")
    assert len(list_waiting_places(world)) == len(BAD_PLACES)


def test_discard_beside_a_flush_is_noted_as_one_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The flush publishes between the note's look at the table and its commit."""
    session = world.open_session(PIPELINE)
    proposals = propose_discards(session, build_filter((0, 2), (1, 4)))
    publish = world.destination.publish

    def publish_behind_a_flush(commit: TableCommit) -> None:
        monkeypatch.setattr(world.destination, "publish", publish)
        world.broker.produce("orders", {"id": "new"}, {"id": "new", "name": "1"}, 0)
        flush(world.open_session(PIPELINE))
        publish(commit)

    monkeypatch.setattr(world.destination, "publish", publish_behind_a_flush)
    for proposal in proposals:
        discard_dead_letters(session, proposal, "test", "ann")
    assert "new" in [row["id"] for row in world.read_rows(ORDERS)]
    assert list_actors(world) == {ORDERS: ["ann"], COPY: ["ann"]}


def test_discard_whose_note_fails_is_done_for_each_table(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure would say that it is not done, and the next try would find nothing to do."""
    action = propose_discard(world.open_session(PIPELINE), build_filter((0, 2)), "test")
    publish = world.destination.publish

    def refuse(commit: TableCommit) -> None:
        if commit.table == ORDERS:
            raise RetryLater("catalog=lake does not answer")
        publish(commit)

    monkeypatch.setattr(world.destination, "publish", refuse)
    action.perform("ann")
    assert (0, 2) not in [*list_waiting_places(world), *list_waiting_places(world, COPY)]
    assert list_actors(world) == {ORDERS: [], COPY: ["ann"]}


def list_actors(world: World) -> dict[str, list[str]]:
    tables = read_status(world.open_session(PIPELINE))["tables"]
    return {table["table"]: [action["by"] for action in table["actions"]] for table in tables}
