"""Dead letters on their way to a topic, with the headers that Kafka Connect gives them."""

from tidegate.errors import GiveUp, RecordRefused
from tidegate.model import resource_names
from tidegate.model.table_state import DeadLetter
from tidegate.ports.context import Message, Ports
from tidegate.spec.table import Table

CONNECT_HEADER_PREFIX = "__connect.errors."
CONNECT_STAGES = {"key": "KEY_CONVERTER", "value": "VALUE_CONVERTER"}


def send_dead_letters(ports: Ports, table: Table, up_to_batch: int) -> int:
    """Send the dead letters of published batches whose staged rows are still there; returns how many.

    0 without `errors.topic`. `RetryLater` if the brokers may not have them, `GiveUp` for one that is too large for the
    topic. Called before those rows are removed, so that a run that died in between sends them again: at least once.
    """
    topic = table.errors.topic
    if topic is None:
        return 0
    letters, name = [], resource_names.name_dead_letter_table(ports.pipeline)
    for staged_batch in ports.staging.list_staged(
        resource_names.name_intermediate_table(ports.pipeline, table), table.name
    ):
        if staged_batch.batch <= up_to_batch and staged_batch.counts.dead_lettered:
            letters += ports.dead_letters.read_letters_of_attempt(name, table.name, staged_batch.attempt)
    messages = [_build_message(ports.pipeline.name, table, letter) for letter in letters]
    try:
        if messages:
            ports.broker.send(topic, messages)
    except RecordRefused as refusal:
        refused_letter = next(
            (letter for letter, message in zip(letters, messages, strict=True) if message == refusal.record), None
        )
        if refused_letter is None:
            raise
        place = f"topic={refused_letter.topic} partition={refused_letter.partition} offset={refused_letter.offset}"
        raise GiveUp(f"the dead letter of {place} was not sent: errors.{refusal}") from refusal
    return len(letters)


def _build_message(pipeline: str, table: Table, letter: DeadLetter) -> Message:
    """The record as it was, its own headers first; errors as text under Kafka Connect's names."""
    part = table.key.format if letter.stage == "key" else table.value.format
    error, message = letter.error_class, letter.message
    header_values = {
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "connector.name": pipeline,
        "task.id": letter.batch,
        "stage": CONNECT_STAGES.get(letter.stage, "TRANSFORMATION"),
        "class.name": part,
        "exception.class.name": error,
        "exception.message": message,
        "exception.stacktrace": f"{error}: {message}\n\tat table={table.name} attempt={letter.attempt}",
    }
    headers = ((CONNECT_HEADER_PREFIX + word, str(value).encode()) for word, value in header_values.items())
    return Message(letter.key, letter.value, (*letter.headers, *headers))
