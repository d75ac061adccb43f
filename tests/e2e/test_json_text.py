"""A dead letter's JSON on the page: each value as it is in the record, in a browser whose numbers have 53 bits."""

import json
from typing import Any

from playwright.sync_api import Page


def indent_json(page: Page, text: str) -> Any:
    script = "(text) => import('/json_text.js').then((one) => one.indentJson(text)).catch((problem) => problem.name)"
    return page.evaluate(script, text)


TEXTS = [
    '{"id": 9007199254740993, "amount": 0.10000000000000000555, "big": 1e400, "zero": -0, "one": 1.0}',
    '{"id":1,"id":2}',
    '[9223372036854775807,-9223372036854775808,{"a":[],"b":{},"c":[[1],[ ]],"d":null,"e":true}]',
    '{"text": "a, b: {c} [d] \\\\ \\"e\\" \\u00e9 / é", "": ""}',
    '"9007199254740993"',
    "12345678901234567890",
    " [ ] ",
]


def test_json_is_indented_as_people_read_it_and_says_what_the_record_says(page: Page) -> None:
    words: dict[str, Any] = {"parse_int": str, "parse_float": str, "object_pairs_hook": list}
    for text in TEXTS:
        indented = indent_json(page, text)
        assert json.loads(indented, **words) == json.loads(text, **words)
        assert "".join(indented.split()) == "".join(text.split()), "nothing is written in another way"
    data = {"a": [1, {"b": None}, []], "c": {}, "d": "x"}
    assert indent_json(page, json.dumps(data)) == json.dumps(data, indent=2)


def test_text_that_is_no_json_is_told(page: Page) -> None:
    for text in ('{"a": 1', "", "a", '{"a": NaN}', '{"a": 1} x'):
        assert indent_json(page, text) == "SyntaxError", text
