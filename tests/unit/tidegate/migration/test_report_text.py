"""A draft is read back as it was written, whatever stands in names and texts."""

import pytest
import yaml
from tidegate.migration.report import format_yaml

TEXTS = (
    "SELECT a -- it's\n, b", "a\tb", "\x00", "\x85", "\u2028", "\ufeffx", "naïve 🙂", "'", "a: b", "- x", "# y", "null",
    "yes", "1:30", "0x1", "1e3", "2026-01-01", "", "~", " a ", "{a", "%a", "@a", "`a`", "<<", "x" * 300, "a  b\n\nc",
)  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_text_is_read_back_wherever_it_stands(text: str) -> None:
    data = {"list": [text, {"b": [text]}], "flow": {text: [text]}, "last": text}
    parsed_data = yaml.safe_load(format_yaml(data, {}))
    # lines of SQL stand below each other, and end with a line
    assert parsed_data == {**data, "last": f"{text}\n" if "\n" in text else text}
