"""Bytes that are written as text in another way than base64: read as they were written, or NULL.

Every function returns SQL text.
"""

from tidegate.sql.spark import render_literal

BASE64 = "base64"  # what JSON's parser and `fields.text` read by themselves
HEX_PATTERN = r"^(?:[0-9a-fA-F]{2})*+\z"
URL_SAFE_PATTERN = r"^(?:[A-Za-z0-9_-]{4})*+(?:[A-Za-z0-9_-]{2}(?:==)?|[A-Za-z0-9_-]{3}=?)?\z"


def render_bytes(text: str, encoding: str) -> str:
    if encoding == "hex":
        return f"CASE WHEN {text} RLIKE {render_literal(HEX_PATTERN)} THEN unhex({text}) END"
    if encoding == "base64-url-safe":
        usual = f"try_to_binary(translate({text}, '-_', '+/'), 'base64')"
        return f"CASE WHEN {text} RLIKE {render_literal(URL_SAFE_PATTERN)} THEN {usual} END"
    return f"try_to_binary({text}, 'base64')"


def render_variant_bytes(variant: str, encoding: str) -> str:
    text = f"try_variant_get({variant}, '$', 'STRING')"
    return f"CASE WHEN schema_of_variant({variant}) = 'STRING' THEN {render_bytes(text, encoding)} END"
