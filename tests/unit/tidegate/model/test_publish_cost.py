"""What a publish cost: a size that nobody counted is unknown, and never 0."""

from tidegate.model.batch import PublishCost, PublishedBatch, read_cost
from tidegate.model.offsets import Ranges


def build_published_batch(**cost: int | None) -> PublishedBatch:
    return PublishedBatch(
        table="lake.a.b", batch=1, ranges=Ranges({}), staged=0, inserted=0, updated=0, deleted=0, seconds=0.0,
        snapshot_id=1, valid_through_ms=None, **cost,
    )  # fmt: skip


def test_files_that_an_iceberg_snapshot_added_are_counted_by_its_summary() -> None:
    assert read_cost({"added-files-size": "1234", "total-data-files": "2"}) == PublishCost(bytes_written=1234)


def test_iceberg_snapshot_without_new_files_wrote_nothing() -> None:
    assert read_cost({"total-data-files": "2", "deleted-data-files": "1"}).bytes_written == 0


def test_batch_without_a_snapshot_wrote_nothing_and_a_destination_that_does_not_count_is_unknown() -> None:
    assert read_cost(None) == PublishCost(bytes_written=0)
    assert read_cost({}) == PublishCost()


def test_bytes_of_a_queue_add_up() -> None:
    assert build_published_batch(bytes_written=5).add(build_published_batch(bytes_written=7)).bytes_written == 12
    assert build_published_batch().add(build_published_batch()).bytes_written is None


def test_result_that_an_earlier_version_left_has_no_size() -> None:
    data = build_published_batch(bytes_written=5).to_dict()
    del data["bytes_written"]
    assert PublishedBatch.from_dict(data).bytes_written is None
