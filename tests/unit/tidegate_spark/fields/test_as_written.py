"""What a JSON text says beside what was parsed of it, as SQL text."""

import json
import re

import pytest
from tidegate.sql.spark import quote, render_literal
from tidegate_spark.fields.lossless import render_is_quoted


@pytest.mark.parametrize("name", ["a", "a b", "`", "`a", "a`", "a.`b", "a`.`b"])
def test_field_is_looked_for_by_its_whole_name(name: str) -> None:
    pattern_text = render_literal(re.escape(json.dumps(name)))[1:-1]
    assert f"concat('{pattern_text}" in render_is_quoted("digits", f"parsed.{quote('around')}.{quote(name)}", "text")
