"""The limits that keep Avro's Java decoder from reserving whatever corrupt bytes announce: settings of a Spark JVM."""

from collections.abc import Mapping

MAX_VALUE_BYTES = 64 * 1024 * 1024  # of one text or bytes
MAX_COLLECTION_ITEMS = 10_000_000  # of one array or map
AVRO_LIMITS = {
    "org.apache.avro.limits.bytes.maxLength": MAX_VALUE_BYTES,
    "org.apache.avro.limits.string.maxLength": MAX_VALUE_BYTES,
    "org.apache.avro.limits.collectionItems.maxLength": MAX_COLLECTION_ITEMS,
}
JAVA_OPTIONS = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")


def has_limits(java_options: str) -> bool:
    """Whether a JVM with these options has all limits, whatever their values."""
    return all(f"-D{name}=" in java_options for name in AVRO_LIMITS)


def add_limits(conf: Mapping[str, str]) -> dict[str, str]:
    """Add the limits to the options of driver and executors; existing ones stay."""
    completed = dict(conf)
    for key in JAVA_OPTIONS:
        options = conf.get(key, "")
        missing = (f"-D{name}={value}" for name, value in AVRO_LIMITS.items() if f"-D{name}=" not in options)
        completed[key] = " ".join([options, *missing]).strip()
    return completed
