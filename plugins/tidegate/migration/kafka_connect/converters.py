"""Converters of Kafka Connect, for keys and values: which format they read, and where its schemas are."""

from typing import Any, Literal

from tidegate.formats.registry import FORMATS
from tidegate.migration.draft import Draft, SettingsLedger
from tidegate.migration.transforms.record_plan import RecordPlan
from tidegate.redaction import has_secret, is_secret_name

Side = Literal["key", "value"]
REGISTRY = "schema_registry_default"
BUSINESS_OF_WRITERS = "it decides how records are written; a sink only reads"
READ_WITHOUT = {
    "schemas.cache.size": "schemas are read once for each batch",
    "schemas.cache.config": "schemas are read once for each batch",
    "max.schemas.per.subject": "schemas are read once for each batch",
    "enhanced.avro.schema.support": "names and enumerations of the schema are read in any case",
    "enhanced.protobuf.schema.support": "names of the schema are read in any case",
    "connect.meta.data": BUSINESS_OF_WRITERS,
    "auto.register.schemas": BUSINESS_OF_WRITERS,
    "use.latest.version": BUSINESS_OF_WRITERS,
    "latest.compatibility.strict": BUSINESS_OF_WRITERS,
    "normalize.schemas": BUSINESS_OF_WRITERS,
    "decimal.format": BUSINESS_OF_WRITERS,
    "scrub.invalid.names": BUSINESS_OF_WRITERS,
    "generalized.sum.type.support": "unions are read by the schema",
    "replace.null.with.default": "a NULL stays NULL; a field that a record lacks has its schema's default",
    "specific.avro.reader": "it has no meaning in Kafka Connect",
    "encoding": "text is UTF-8",
}
NUMBER_CONVERTERS = {
    "IntegerConverter": "INT", "LongConverter": "BIGINT", "ShortConverter": "SMALLINT", "FloatConverter": "FLOAT",
    "DoubleConverter": "DOUBLE",
}  # fmt: skip
STRATEGIES = ("TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy")
PLAIN_CONVERTERS = ("JsonConverter", "StringConverter", "ByteArrayConverter", *NUMBER_CONVERTERS)
ENCODINGS = {
    "JsonConverter": "json", "AvroConverter": "avro", "ProtobufConverter": "protobuf", "JsonSchemaConverter": "json",
    "ExtJsonConverter": "json", "StringConverter": "string", "ByteArrayConverter": "raw",
}  # fmt: skip
OF_REGISTRY = ("schema.registry.", "basic.auth.", "bearer.auth.", "apicurio.registry.url", "apicurio.auth.")


def plan_converter(ledger: SettingsLedger, draft: Draft, plan: RecordPlan, side: Side) -> None:
    """Add the format of keys or values to the plan, with the place of its schemas."""
    name = f"{side}.converter"
    path = ("source", side, "format")
    converter = ledger.get(name).rpartition(".")[2]
    part: dict[str, Any] = plan.key if side == "key" else plan.value
    if not converter:
        reader_text = "the Connect worker's own converter reads them; it stands in the worker's properties"
        draft.check(path, f"The connector has no {name}: {reader_text} (give them with --worker). The file says json.")
        part["format"] = "json"
    elif converter in NUMBER_CONVERTERS:
        part["format"] = "raw"
        ledger.map(name, f"source.{side}.format: raw", f"the column has type {NUMBER_CONVERTERS[converter]}")
        part["type"] = NUMBER_CONVERTERS[converter]
    elif converter in ENCODINGS:
        part["format"] = ENCODINGS[converter]
        ledger.map(name, f"source.{side}.format: {part['format']}")
    else:
        part["format"] = "json"
        ledger.refuse(name, f"the converter {converter} is not known; set source.{side}.format by what it reads")
        draft.fill_in(
            path, f"what {converter} reads; see docs/formats.md. json stands here so that the file can be read."
        )
    options = _plan_options(ledger.below(f"{name}."), draft, part["format"], side, converter)
    part |= {part["format"]: options} if options else {}
    if side == "value":
        format_spec = FORMATS[part["format"]]
        has_registry = part.get("json", {}).get("registry")
        plan.row.is_typed = plan.row.is_typed or bool(format_spec.schema or format_spec.only_column or has_registry)


def _plan_options(ledger: SettingsLedger, draft: Draft, encoding: str, side: Side, converter: str) -> dict[str, Any]:
    options = dict[str, Any]()
    if converter == "JsonConverter":
        options |= _plan_envelope(ledger, side)
    else:
        ledger.drop("schemas.enable", f"{converter or 'this converter'} does not read it")
    registry_words = [word for word in ledger.list_names() if word.startswith(OF_REGISTRY) or is_secret_name(word)]
    if converter in PLAIN_CONVERTERS:
        ledger.drop_each(dict.fromkeys(registry_words, f"{converter} asks no registry"))
    elif ledger.has("schema.registry.url") or ledger.has("apicurio.registry.url"):
        options |= _plan_registry(ledger, draft, registry_words, encoding, side)
    ledger.drop_each(READ_WITHOUT)
    return options


def _plan_envelope(ledger: SettingsLedger, side: Side) -> dict[str, Any]:
    if side == "key":
        ledger.drop("schemas.enable", "an envelope around a key is seen in each record")
    elif ledger.is_true("schemas.enable", default=True):
        ledger.map("schemas.enable", "source.value.json.envelope: true")
        return {"envelope": True}
    else:
        ledger.map("schemas.enable", "source.value.format: json", "plain objects, the default")
    return {}


def _plan_registry(ledger: SettingsLedger, draft: Draft, words: list[str], encoding: str, side: Side) -> dict[str, Any]:
    urls = [word for word in words if word.endswith("registry.url")]
    url = ledger.get(urls[0])
    # the address stays in the file only where no login belongs to it
    plain = bool(url) and words == urls and not has_secret(url) and "," not in url and "${" not in url
    target = f"source.{side}.{encoding}.registry"
    ledger.map_each(words, target, "" if plain else f"connection {REGISTRY} holds it")
    for word in words if not plain else ():
        draft.need_connection(REGISTRY, "the registry's address as host" if word in urls else _name_client_word(word))
    return {"registry": url if plain else REGISTRY, **_plan_wire_format(ledger, draft, side)}


def _name_client_word(word: str) -> str:
    if word.endswith("user.info"):
        return "the registry's user as login, its password as password"
    if "credentials.source" in word:
        return "the login itself; there is no other source of it"
    return f"{word.removeprefix('schema.registry.')} in its extra, under the name of Confluent's Python client"


def _plan_wire_format(ledger: SettingsLedger, draft: Draft, side: Side) -> dict[str, str]:
    options = dict[str, str]()
    target = f"source.{side}, beside registry:"
    for word in ("subject.name.strategy", f"{side}.subject.name.strategy"):
        strategy = ledger.get(word).rpartition(".")[2]
        if strategy in STRATEGIES:
            options["subject_name_strategy"] = strategy
            ledger.map(word, f"{target} subject_name_strategy: {strategy}")
        elif strategy:
            ledger.refuse(word, f"the strategy {strategy} is not known; name the subject in {target} subject")
    if options.get("subject_name_strategy", STRATEGIES[0]) != STRATEGIES[0]:
        draft.fill_in(("source", side), "records: [...], the full names of the record types beside the strategy.")
    if ledger.has("apicurio.registry.url"):
        in_header = ledger.is_true("apicurio.registry.headers.enabled")
        options["wire_format"] = "apicurio-header" if in_header else "apicurio"
        ledger.map("apicurio.registry.headers.enabled", f"{target} wire_format: {options['wire_format']}")
    return options
