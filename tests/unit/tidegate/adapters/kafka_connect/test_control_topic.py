"""Announcements of an Iceberg sink are read as its own classes write them."""

import pytest
from control_events import GROUP, TABLE, load_control_events
from tidegate.adapters.kafka_connect.control_topic import decode_announcement
from tidegate.errors import GiveUp
from tidegate.sinks.world import AnnouncedFiles

EVENTS = load_control_events()


def test_announcement_tells_group_table_and_files_that_hold_rows() -> None:
    announcement = decode_announcement("control", 1, 7, EVENTS["written"])
    assert announcement == AnnouncedFiles(partition=1, offset=7, group=GROUP, table=TABLE, files=2)
    empty = decode_announcement("control", 1, 8, EVENTS["empty"])
    assert empty == AnnouncedFiles(partition=1, offset=8, group=GROUP, table=TABLE, files=0)


@pytest.mark.parametrize("name", ["start", "complete", "committed", "done"])
def test_other_events_announce_nothing(name: str) -> None:
    assert decode_announcement("control", 0, 0, EVENTS[name]) is None


def test_events_of_an_old_sink_are_named() -> None:
    schema = b'{"type":"record","name":"Event","namespace":"io.tabular.iceberg.connect.events"}'
    with pytest.raises(GiveUp, match=r"with Iceberg 1\.4"):
        decode_announcement("control", 0, 0, b"\xc2\x01\x00" + bytes([len(schema)]) + schema)


@pytest.mark.parametrize("data", [b"", b"{}", b"\xc2\x01", b"\xc2\x01\x00\x02{}", EVENTS["written"][:-40]])
def test_what_no_sink_has_written_is_refused_with_its_place(data: bytes) -> None:
    with pytest.raises(GiveUp, match=r"topic=control partition=2 offset=9: no event of an Iceberg sink"):
        decode_announcement("control", 2, 9, data)
