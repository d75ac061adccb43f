"""Jobs through a real spark-submit: what goes wrong in one keeps its kind, as it does through Connect."""

import pytest
from round_trip import Way
from tidegate.errors import BadRecord

SUBMITTED = {"master": "local[1]"}


# what a driver leaves behind is read in unit tests; jobs run through spark-submit end to end
@pytest.mark.repeats(
    "unit/tidegate/adapters/spark/test_submit.py::test_error_of_a_submitted_job_keeps_its_kind_and_its_text"
)
def test_publication_that_is_refused_in_a_submitted_job_is_refused_and_not_tried_again(workbench) -> None:
    way = Way(workbench, "refused", sql="SELECT id % 2 AS id, name FROM {table}", spark=SUBMITTED)
    way.flush(k1="a", k2="b", k3="c")
    with pytest.raises(BadRecord, match=r'key=\{"id":1\}: it has several rows; correct key.fields'):
        way.publish()
    assert way.read_records() == []
    other_names = ", ".join(f"'{number:0100}'" for number in range(1100))  # a job longer than an argument may be
    way.write_publication(sql=f"SELECT * FROM {{table}} WHERE name NOT IN ('b', {other_names})", spark=SUBMITTED)
    way.publish()
    assert {key: row["name"] for key, row in way.read_latest().items()} == {'{"id":1}': "a", '{"id":3}': "c"}
