"""How far a publication has come, as it is stored and as it goes to Spark's workers."""

import json
import pickle

from tidegate.model.publication_progress import Progress, RunMode

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
