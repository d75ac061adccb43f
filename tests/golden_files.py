"""Texts that people have read, kept as files; only a developer writes them anew, and reads what changed."""

import os
from pathlib import Path

import pytest


def compare_with_golden(golden: Path, text: str) -> None:
    """Fail where the text differs from the file. ``REGENERATE_GOLDEN=1`` writes the file; a build refuses to."""
    if os.environ.get("REGENERATE_GOLDEN"):
        if os.environ.get("CI"):
            pytest.fail("a build compares golden files and never writes them; unset REGENERATE_GOLDEN")
        golden.write_text(text)
    assert text == golden.read_text()
