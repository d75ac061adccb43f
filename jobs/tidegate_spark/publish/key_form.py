"""What the bytes of keys depend on beside the rows: where it changes, the topic would take each key for a new one."""

from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812 (as Spark's own examples call it)
from tidegate.errors import GiveUp
from tidegate.formats.registry import get_format
from tidegate.jobs.publish_job import PublishJob
from tidegate.model.publication_progress import RunMode

from tidegate_spark.publish.encoders.record_part import RecordPart
from tidegate_spark.publish.encoders.registry import build_part_header

INTEGERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)


def describe_key_form(spark: SparkSession, key: RecordPart) -> str:
    """A text that is another one where the same key would have other bytes.

    With a registry it is what stands before each key: the id of its schema. Else it is the columns' types, as far as
    they show: a whole number is the same text whatever its type is, one of a `FLOAT` is another one as a `DOUBLE`.
    """
    header = build_part_header(spark, key)
    if header is not None:
        return header.hex()
    is_wide = bool(get_format(key.format).column_types)  # its numbers are bytes, as many as their type has
    return ", ".join(f"{name} {_describe_type(kind, is_wide=is_wide)}" for name, kind in key.typed_fields)


def refuse_other_keys(job: PublishJob, form: str) -> None:
    """GiveUp where keys that are in the topics have another form: those would stay there beside the new ones."""
    earlier_form = next((part.key_form for part in job.parts if part.key_form not in ("", form)), None)
    if earlier_form is None or job.position.mode == RunMode.TOPIC:
        return
    raise GiveUp(
        f"publication={job.publication} snapshot={job.position.to}: keys would be written otherwise than those that "
        f"the topics hold, key_form={earlier_form} and now key_form={form}, as a column's type or the key's schema in "
        "the registry has changed: each row would have a new key, and the old ones would stay; nothing was produced; "
        f"run `tidegate publish {job.publication} --resynchronise`, which deletes the old keys, or publish to a "
        "new topic"
    )


def _describe_type(kind: T.DataType, *, is_wide: bool) -> str:
    if isinstance(kind, INTEGERS) and not is_wide:
        return "integer"
    if isinstance(kind, T.DecimalType):
        return f"decimal({kind.scale})"
    if isinstance(kind, T.StructType):
        fields = ", ".join(f"{field.name} {_describe_type(field.dataType, is_wide=is_wide)}" for field in kind)
        return f"struct({fields})"
    if isinstance(kind, T.ArrayType):
        return f"array({_describe_type(kind.elementType, is_wide=is_wide)})"
    if isinstance(kind, T.MapType):
        sides = (_describe_type(data_type, is_wide=is_wide) for data_type in (kind.keyType, kind.valueType))
        return f"map({', '.join(sides)})"
    return str(kind.simpleString())
