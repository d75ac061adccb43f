"""Every format that is registered has a decoder where its description says, and its words where checks look."""

import pytest
from tidegate.formats.registry import FORMATS, KEY_FORMATS, VALUE_FORMATS, WRITTEN_FORMATS, WRITTEN_KEY_FORMATS
from tidegate.spec.source import METADATA_TYPES, list_known_words
from tidegate_spark.formats.decoded import find_decoder


@pytest.mark.parametrize("name", FORMATS)
def test_format_has_a_decoder_for_what_it_reads(name: str) -> None:
    description, module = FORMATS[name], find_decoder(name)
    assert description.name == name
    assert hasattr(module, "decode_key") == description.reads_keys
    assert hasattr(module, "decode_value")


def test_words_of_the_pipeline_file_are_those_that_are_registered() -> None:
    assert KEY_FORMATS == ("json", "avro", "protobuf", "csv", "string", "raw", "msgpack")
    assert set(VALUE_FORMATS) - set(KEY_FORMATS) == {
        "debezium-json", "debezium-avro", "canal-json", "maxwell-json", "ogg-json",
    }  # fmt: skip
    assert WRITTEN_KEY_FORMATS == ("json", "avro", "protobuf", "csv", "string", "raw")
    assert set(WRITTEN_FORMATS) - set(WRITTEN_KEY_FORMATS) == {"debezium-json"}


def test_words_of_metadata_are_those_of_the_format_ahead_of_kafkas() -> None:
    assert list_known_words("msgpack")[0] == "topic"
    assert list_known_words("maxwell-json")[:5] == (
        "value.database", "value.table", "value.primary-key-columns", "value.ingestion-timestamp", "topic",
    )  # fmt: skip
    assert METADATA_TYPES["value.pos"] == "DECIMAL(38,0)"
    assert "value.pos" in list_known_words("ogg-json")
    assert "value.pos" not in list_known_words("debezium-json")
