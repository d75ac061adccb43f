"""Parts of a publication that stand apart: what brings them together, and what a run may call its own."""

import json
import zlib
from dataclasses import replace
from typing import Any

import pytest
from fakes.producing import Killed
from fakes.publications import Outside
from tidegate.errors import GiveUp, NothingToDo, RetryLater
from tidegate.model.publication_progress import Progress
from tidegate.publications.plan import plan_run
from tidegate.publications.publish import publish
from tidegate.spec.publication import KeyOut

ROWS = dict.fromkeys("abcdefgh", "1")


@pytest.fixture
def outside() -> Outside:
    outside = Outside(delivery="exactly-once", parallelism=2, transaction_records=2)
    outside.table.commit(**ROWS)
    publish(outside.open_session())
    return outside


def die_between_the_parts(outside: Outside, **words: Any) -> None:
    """The first part is done, the second one was not begun."""
    before = outside.topic.broker.epochs.copy()

    def meet(number: int, name: str) -> None:
        if name == "init_transactions" and outside.topic.broker.epochs != before:
            outside.topic.broker.before_call = lambda number, name: None
            raise Killed

    outside.topic.broker.before_call = meet
    with pytest.raises(Killed):
        publish(outside.open_session(), **words)


def die_within_the_second_part(outside: Outside) -> None:
    """The first part is done, and of the second one some changes are committed."""
    calls: list[str] = []

    def meet(number: int, name: str) -> None:
        calls.append(name)
        if calls.count("init_transactions") == 2 and calls[-2:] == ["commit_transaction", "begin_transaction"]:
            outside.topic.broker.before_call = lambda number, name: None
            raise Killed

    outside.topic.broker.before_call = meet
    with pytest.raises(Killed):
        publish(outside.open_session())


def replace_topic(outside: Outside) -> None:
    outside.topic.id = "t2"
    outside.topic.broker.logs["out", 0].clear()


def test_comparison_that_died_between_two_parts_of_a_new_topic_is_finished_though_the_table_stands_still(
    outside: Outside,
) -> None:
    replace_topic(outside)
    die_between_the_parts(outside, resynchronise=True)
    run = plan_run(outside.open_session())
    assert (run.position.mode, run.is_resumed, [part.number for part in run.parts]) == ("topic", True, [1])
    publish(outside.open_session())
    assert outside.topic.read_latest() == ROWS
    assert len(outside.topic.records) == len(ROWS)
    with pytest.raises(NothingToDo, match="nothing came since"):
        publish(outside.open_session())


@pytest.mark.guard(
    "publication: a killed comparison is finished for every part",
    file="plugins/tidegate/publications/plan.py",
    text="        _find_not_compared(observed)\n        or _find_in_progress(observed.session, progress)\n",
    off="        _find_in_progress(observed.session, progress)\n",
    case="table moves",
)
@pytest.mark.parametrize("is_moved", [False, True], ids=["table stands still", "table moves"])
def test_comparison_that_died_between_two_parts_of_a_damaged_topic_is_finished(
    outside: Outside, is_moved: bool
) -> None:
    if is_moved:
        outside.table.commit(**ROWS, z="1")
    outside.topic.receive(*((key, "damaged") for key in ROWS))
    die_between_the_parts(outside, resynchronise=True)
    publish(outside.open_session())
    assert outside.topic.read_latest() == outside.table.read_latest()


@pytest.mark.parametrize("is_moved", [False, True], ids=["table stands still", "table moves"])
def test_comparison_by_a_worker_whose_clock_is_behind_is_finished_too(outside: Outside, is_moved: bool) -> None:
    """The part that it has not reached is told from the one that it has by no clock."""
    if is_moved:
        outside.table.commit(**ROWS, z="1")
    outside.topic.receive(*((key, "damaged") for key in ROWS))
    outside.topic.broker.seconds -= 3600
    die_between_the_parts(outside, resynchronise=True)
    publish(outside.open_session())
    assert outside.topic.read_latest() == outside.table.read_latest()


def test_comparison_under_a_changed_file_that_died_between_two_parts_leaves_none_under_the_old_one(
    outside: Outside,
) -> None:
    outside.publication = replace(outside.publication, key=KeyOut(("id",), prefix="k_"))
    die_between_the_parts(outside, resynchronise=True)
    publish(outside.open_session())
    digests = {part.digest for part in outside.topic.read_progress(outside.publication).recorded_parts}
    assert digests == {outside.publication.digest}


def test_comparison_is_never_resumed_behind_a_key_for_the_topic_may_have_changed_before_it(outside: Outside) -> None:
    outside.topic.receive(*((key, "damaged") for key in ROWS))
    outside.die_at(7)  # behind the first commit of the first part
    with pytest.raises(Killed):
        publish(outside.open_session(), resynchronise=True)
    (first, *_) = outside.topic.read_progress(outside.publication).recorded_parts
    assert (first.mode, first.is_complete) == ("topic", False)
    outside.topic.receive(*((key, "damaged again") for key in ROWS))
    publish(outside.open_session())
    assert outside.topic.read_latest() == ROWS


def test_comparison_asks_for_every_key_of_a_part_that_was_on_its_way_between_two_snapshots(outside: Outside) -> None:
    """The key that it had come to means nothing to a comparison, which looks at keys before it too."""
    outside.table.commit(**dict.fromkeys(ROWS, "2"))
    die_within_the_second_part(outside)
    first, second = outside.topic.read_progress(outside.publication).recorded_parts
    assert (first.is_complete, second.mode, bool(second.after)) == (True, "changes", True)
    outside.topic.receive(*((key, "damaged") for key in ROWS))
    die_between_the_parts(outside, resynchronise=True)
    run = plan_run(outside.open_session())
    parts = [(part.number, part.after, part.counts) for part in run.parts]
    assert (run.position.mode, parts) == ("topic", [(1, "", {})])
    publish(outside.open_session())
    assert outside.topic.read_latest() == outside.table.read_latest()


class Overtaken:
    """Spark, behind another run that is through with the first part only."""

    def __init__(self, outside: Outside, **words: Any) -> None:
        self._outside, self._words = outside, words

    def run(self, job: Any) -> None:
        die_between_the_parts(self._outside, **self._words)
        self._outside.spark.run(job)


def test_run_that_had_to_compare_every_key_does_not_claim_a_part_that_another_run_took(outside: Outside) -> None:
    late = replace(outside.open_session(), engine=Overtaken(outside, resynchronise=True))
    with pytest.raises(RetryLater, match="1 of 2 parts arrived there"):
        publish(late, resynchronise=True)


def test_run_whose_parts_another_run_brought_to_the_same_snapshot_is_done(outside: Outside) -> None:
    outside.table.commit(**dict.fromkeys(ROWS, "2"))
    result = publish(replace(outside.open_session(), engine=Overtaken(outside)))
    assert (result.to_snapshot_id, outside.topic.read_latest()) == (11, dict.fromkeys(ROWS, "2"))
    assert len(outside.topic.records) == 2 * len(ROWS), "each change once"


def test_pin_of_a_run_that_began_behind_this_one_stays(outside: Outside) -> None:
    outside.table.commit(**dict.fromkeys(ROWS, "2"))

    class Slow:
        def run(self, job: Any) -> None:
            outside.spark.run(job)
            outside.table.commit(**ROWS)
            outside.table.pin("lake.shop.t", 12, "tidegate-publication-out-12")

    publish(replace(outside.open_session(), engine=Slow()))
    assert set(outside.table.tags.values()) == {11, 12}


def test_parts_in_three_states_come_together_where_the_newest_is_and_no_reader_is_led_back() -> None:
    """Nothing tells the newest but the table itself: clocks of executors differ."""
    outside = Outside(delivery="exactly-once", parallelism=3, transaction_records=2)
    outside.table.commit(**ROWS)
    publish(outside.open_session())
    stay = [outside.topic.read_progress(outside.publication)]
    for value in "23":
        outside.table.commit(**dict.fromkeys(ROWS, value))
        publish(outside.open_session())
        stay.append(outside.topic.read_progress(outside.publication))
    undo(outside, 0, stay[0].raw_records[0] or "", {"2", "3"})
    undo(outside, 1, stay[1].raw_records[1] or "", {"3"})
    assert [part.to for part in outside.topic.read_progress(outside.publication).recorded_parts] == [10, 11, 12]
    before = len(outside.topic.records)
    publish(outside.open_session())
    assert set(dict(outside.topic.records[before:]).values()) == {"3"}
    assert outside.topic.read_latest() == dict.fromkeys(ROWS, "3")
    assert set(outside.table.tags.values()) == {12}


def undo(outside: Outside, part: int, raw: str, values: set[str]) -> None:
    """As if a part had not taken part in the last runs, and its clock were ahead."""
    state = outside.topic.broker.logs["state", part]
    state[-1].value = json.dumps({**json.loads(raw), "at_ms": 10_000_000}).encode()
    log = outside.topic.broker.logs["out", 0]
    for entry in [record for record in log if zlib.crc32(record.key or b"") % 3 == part]:
        if (entry.value or b"").decode() in values:
            log.remove(entry)


def test_expired_snapshot_between_the_states_of_two_parts_is_refused_in_words(outside: Outside) -> None:
    outside.table.commit(**dict.fromkeys(ROWS, "2"))
    die_between_the_parts(outside)
    del outside.table.snapshots[10]
    with pytest.raises(GiveUp, match=r"snapshot=10 of table=lake\.shop\.t, which was published last, has expired"):
        publish(outside.open_session())


def test_progress_of_an_unknown_pair_is_no_key_to_go_on_behind(outside: Outside) -> None:
    """The key that a part has come to means something between its own two states only."""
    outside.table.commit(**dict.fromkeys(ROWS, "2"))
    outside.die_at(7)
    with pytest.raises(Killed):
        publish(outside.open_session())
    run = plan_run(outside.open_session())
    assert [bool(part.after) for part in run.parts] == [True, False]
    progress = outside.topic.read_progress(outside.publication)
    assert isinstance(progress.parts[0], Progress)
    assert progress.parts[0].pair == run.position.pair
