"""How far a publication has come, as it is stored and as it goes to Spark's workers."""

import json
import pickle
from dataclasses import replace

from tidegate.model.publication_progress import PartProgress, Progress, RunMode

PROGRESS = Progress(
    run="r1",
    mode=RunMode.CHANGES,
    origin=1,
    to=2,
    digest="d",
    table_uuid="u",
    topic_ids={"left": "a", "right": "b"},
    partitions={"left": 2, "right": 1},
)


def test_progress_goes_to_workers_that_do_not_have_the_product() -> None:
    assert b"tidegate" not in pickle.dumps(PROGRESS.to_dict())


def test_progress_is_stored_with_the_word_of_its_mode_and_read_back() -> None:
    stored_text = json.dumps(PROGRESS.to_dict()).encode()
    assert json.loads(stored_text)["mode"] == "changes"
    assert Progress.from_bytes(stored_text) == PROGRESS


def test_progress_with_a_field_that_is_no_more_is_read() -> None:
    """State topics stay when another version is installed."""
    for text in ("null", "7"):
        stored_text = json.dumps(PROGRESS.to_dict())[:-1] + f', "until": {text}}}'
        assert PartProgress((stored_text, None)).parts == (PROGRESS, None)


def test_later_run_has_the_greater_number_whatever_the_clocks_say() -> None:
    first = replace(PROGRESS, run=PartProgress((None, None)).name_run("a"), at_ms=5)
    second = replace(PROGRESS, run=PartProgress((_to_text(first), _to_text(PROGRESS))).name_run("b"), at_ms=2)
    tenth = replace(PROGRESS, run="10.c", at_ms=1)
    assert [position.run for position in (first, second)] == ["1.a", "2.b"]
    assert [position.number for position in (PROGRESS, first, second, tenth)] == [0, 1, 2, 10]
    assert PartProgress(tuple(map(_to_text, (tenth, first, second)))).last_position == tenth


def _to_text(position: Progress) -> str:
    return json.dumps(position.to_dict())
