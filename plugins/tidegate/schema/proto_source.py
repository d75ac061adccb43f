"""Reads the text of a `.proto` file into its descriptor, for registries that give nothing else.

The descriptor is plain data in Protobuf's JSON form. Types stay as the text names them: Protobuf's runtime looks them
up from the inside out, as its compiler does. Only options that change what readers see are read.
"""

import re
from ast import literal_eval
from collections.abc import Iterator
from typing import Any

TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/)|(?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
    r"""|(?P<number>[-+]?(?:\d+\.\d*|\.\d+|\d+(?=[eE][-+]))(?:[eE][-+]?\d+)?)"""
    r"""|(?P<word>[-+]?\.?\w+(?:\.\w+)*)|(?P<sign>[{}\[\]()<>=;,:/.])""",
    re.DOTALL,
)
SCALAR_TYPES = (
    "double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32",
    "sfixed64", "bool", "string", "bytes",
)  # fmt: skip
LABELS = {"optional": "LABEL_OPTIONAL", "required": "LABEL_REQUIRED", "repeated": "LABEL_REPEATED"}
SKIPPED = ("option", "service", "extend", "extensions")
MAX_NUMBER = 536870911
QUOTES = ("'", '"')


class ProtoSyntaxError(ValueError):
    """The text is not what this module reads; the message says where."""


def parse_proto(text: str) -> dict[str, Any]:
    """Return the file's descriptor, in Protobuf's JSON form. `ProtoSyntaxError` also for a file of an edition."""
    words = _Words(text)
    file_descriptor: dict[str, Any] = {"syntax": "proto2", "dependency": [], "messageType": [], "enumType": []}
    while (word := words.take()) is not None:
        if word == "syntax":
            words.expect("=")
            file_descriptor["syntax"] = _unquote(words.take_any())
            words.expect(";")
        elif word == "package":
            file_descriptor["package"] = words.take_any()
            words.expect(";")
        elif word == "import":
            name = words.take_any()
            if name == "public":
                file_descriptor.setdefault("publicDependency", []).append(len(file_descriptor["dependency"]))
            name = words.take_any() if name in ("public", "weak") else name
            file_descriptor["dependency"].append(_unquote(name))
            words.expect(";")
        elif word == "message":
            file_descriptor["messageType"].append(_read_message(words, file_descriptor["syntax"]))
        elif word == "enum":
            file_descriptor["enumType"].append(_read_enum(words))
        elif word in SKIPPED:
            words.skip_statement()
        elif word != ";":
            raise ProtoSyntaxError(f"line={words.line}: {word!r} begins nothing that is read here")
    return file_descriptor


class _Words:
    def __init__(self, text: str) -> None:
        self.line = 1
        self._tokens = self._split(text)
        self._next: str | None = next(self._tokens, None)

    def _split(self, text: str) -> Iterator[str]:
        place = 0
        while place < len(text):
            match = TOKEN.match(text, place)
            if match is None:
                raise ProtoSyntaxError(f"line={self.line}: {text[place : place + 10]!r} is no word of the language")
            place = match.end()
            if match.lastgroup != "skip":
                yield match.group()
            self.line += match.group().count("\n")

    def see(self) -> str | None:
        return self._next

    def take(self) -> str | None:
        word = self._next
        self._next = next(self._tokens, None)
        return word

    def take_any(self) -> str:
        word = self.take()
        if word is None:
            raise ProtoSyntaxError(f"line={self.line}: the text ends too early")
        return word

    def expect(self, wanted_word: str) -> None:
        if (word := self.take_any()) != wanted_word:
            raise ProtoSyntaxError(f"line={self.line}: {word!r} stands where {wanted_word!r} must")

    def skip_statement(self) -> None:
        """Read over everything up to the semicolon, or to the end of the braces, that ends a statement."""
        depth = 0
        while True:
            word = self.take_any()
            depth += (word == "{") - (word == "}")
            if depth == 0 and word in (";", "}"):
                return


def _read_message(words: _Words, syntax: str) -> dict[str, Any]:
    message: dict[str, Any] = {"name": words.take_any(), "field": [], "nestedType": [], "enumType": [], "oneofDecl": []}
    words.expect("{")
    while (word := words.take_any()) != "}":
        if word == "message":
            message["nestedType"].append(_read_message(words, syntax))
        elif word == "enum":
            message["enumType"].append(_read_enum(words))
        elif word == "oneof":
            _read_oneof(words, message)
        elif word == "map" and words.see() == "<":
            _read_map(words, message)
        elif word == "reserved":
            _read_reserved(words, message)
        elif word in SKIPPED:
            words.skip_statement()
        elif word != ";":
            label = LABELS.get(word)
            field = _read_field(words, words.take_any() if label else word, label or LABELS["optional"])
            if word == "optional" and syntax == "proto3":
                field["proto3Optional"] = True
            message["field"].append(field)
    for field in message["field"]:
        if field.get("proto3Optional"):  # a choice of one, and these come last
            field["oneofIndex"] = len(message["oneofDecl"])
            message["oneofDecl"].append({"name": f"_{field['name']}"})
    return message


def _read_reserved(words: _Words, message: dict[str, Any]) -> None:
    while (word := words.take_any()) != ";":
        if word.isdigit():
            last = int(word)
            if words.see() == "to":
                words.take()
                last = MAX_NUMBER if words.see() == "max" else _to_number(words)
            message.setdefault("reservedRange", []).append({"start": int(word), "end": last + 1})


def _read_oneof(words: _Words, message: dict[str, Any]) -> None:
    index = len(message["oneofDecl"])
    message["oneofDecl"].append({"name": words.take_any()})
    words.expect("{")
    while (word := words.take_any()) != "}":
        if word == "option":
            words.skip_statement()
        elif word != ";":
            message["field"].append({**_read_field(words, word, LABELS["optional"]), "oneofIndex": index})


def _read_map(words: _Words, message: dict[str, Any]) -> None:
    # a map is a list of messages of a key and a value, whose type lies in the message itself
    words.expect("<")
    key = words.take_any()
    words.expect(",")
    value = words.take_any()
    words.expect(">")
    name = words.see() or ""
    entry = "".join(part[:1].upper() + part[1:] for part in name.split("_")) + "Entry"
    message["field"].append(_read_field(words, entry, LABELS["repeated"]))
    parts = [
        {"name": part, "number": number, "label": LABELS["optional"], **_name_type(kind)}
        for number, (part, kind) in enumerate((("key", key), ("value", value)), start=1)
    ]
    message["nestedType"].append({"name": entry, "field": parts, "options": {"mapEntry": True}})


def _read_field(words: _Words, kind: str, label: str) -> dict[str, Any]:
    if kind == "group":
        raise ProtoSyntaxError(f"line={words.line}: a group is not read here")
    field: dict[str, Any] = {"name": words.take_any(), "label": label, **_name_type(kind)}
    words.expect("=")
    field["number"] = _to_number(words)
    if words.see() == "[":
        field |= _read_options(words, kind)
    words.expect(";")
    return field


def _read_options(words: _Words, kind: str) -> dict[str, Any]:
    words.expect("[")
    options: dict[str, Any] = {}
    depth = 1
    name = ""
    while depth:
        word = words.take_any()
        depth += (word in ("[", "{")) - (word in ("]", "}"))
        if word == "=" and depth == 1:
            if name == "default":
                options["defaultValue"] = _read_default(words, kind)
            elif name == "json_name":
                options["jsonName"] = _unquote(words.take_any())
            elif name == "packed":
                options["options"] = {"packed": words.take_any() == "true"}
        name = word
    return options


def _read_default(words: _Words, kind: str) -> str:
    texts = [words.take_any()]
    while texts[0][0] in QUOTES and (words.see() or " ")[0] in QUOTES:
        texts.append(words.take_any())
    if kind != "string":
        return "".join(map(_unquote, texts))
    try:
        return "".join(map(literal_eval, texts))
    except (SyntaxError, ValueError):
        raise ProtoSyntaxError(f"line={words.line}: {' '.join(texts)} is no default of a string") from None


def _read_enum(words: _Words) -> dict[str, Any]:
    enum: dict[str, Any] = {"name": words.take_any(), "value": []}
    words.expect("{")
    while (word := words.take_any()) != "}":
        if word == "option" and words.see() == "allow_alias":
            enum["options"] = {"allowAlias": True}
        if word in (*SKIPPED, "reserved"):
            words.skip_statement()
        elif word != ";":
            words.expect("=")
            enum["value"].append({"name": word, "number": _to_number(words)})
            words.skip_statement()  # the value's options
    return enum


def _name_type(kind: str) -> dict[str, str]:
    return {"type": f"TYPE_{kind.upper()}"} if kind in SCALAR_TYPES else {"typeName": kind}


def _to_number(words: _Words) -> int:
    word = words.take_any()
    try:
        return int(word, 0)
    except ValueError:
        raise ProtoSyntaxError(f"line={words.line}: {word!r} is no number") from None


def _unquote(word: str) -> str:
    return word[1:-1] if word[:1] in QUOTES else word
