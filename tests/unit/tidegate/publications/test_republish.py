"""What the form of a publication's DAG may ask for, as the command does."""

from typing import Any

import pytest
from tidegate.errors import ConfigurationError
from tidegate.publications.republish import RepublishRequest, read_republish_request

A_TIME = "2026-01-01T00:00:00Z"
EMPTY: dict[str, Any] = {"resynchronise": False, "again": False, "from": None, "to": None}


@pytest.mark.parametrize(
    ("words", "expected_request"),
    [
        ({}, None),
        ({"from": "", "to": ""}, None),
        ({"resynchronise": True}, None),
        ({"again": True}, RepublishRequest()),
        ({"again": True, "from": A_TIME, "to": ""}, RepublishRequest(A_TIME)),
        ({"again": True, "from": "7", "to": "8"}, RepublishRequest("7", "8")),
    ],
)
def test_form_asks_for_what_the_command_takes(words: dict[str, Any], expected_request: RepublishRequest | None) -> None:
    assert read_republish_request({**EMPTY, **words}) == expected_request


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ({"from": A_TIME}, f"from={A_TIME} to=None: only a run that produces again takes them"),
        ({"to": "8", "resynchronise": True}, "from=None to=8: only a run that produces again takes them"),
        ({"again": True, "resynchronise": True}, "again and resynchronise are two kinds of a run; choose one"),
    ],
)
def test_words_of_a_form_that_do_not_go_together_are_refused_and_not_passed_over(
    words: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        read_republish_request({**EMPTY, **words})
