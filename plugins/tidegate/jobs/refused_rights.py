"""A right that a Spark job lacked, found in what its failure says: no retry changes that, so a person is asked."""

import re

from tidegate.errors import ConfigurationError

# PostgreSQL's words, behind a SQL catalog of Iceberg
DATABASE_PATTERN = re.compile(r"permission denied for (?:table|schema|database|sequence) [^\s;]+")
# of Kafka's Java client
KAFKA_PATTERN = re.compile(r"Not authorized to access (?:topics|group): [^;\s]+|Transactional ?Id authorization failed")
# those of Amazon's client: the store's own, then in brackets what it answered; to a HEAD it says nothing
STORE_PATTERN = re.compile(r"(?P<words>[^:;\n()]*)\(Service: S3, Status Code: 403\b")
NOT_AUTHORIZED = "is not authorized to perform"  # Amazon's, in a sentence with the user and the object
ACTION_PATTERN = re.compile(r"\bs3:[A-Z]\w+")  # Amazon's store names what it refused, others do not
CALL_PATTERN = re.compile(r"\bDefaultS3Client\.(\w+)\(")  # in a trace
ACTIONS_BY_CALL = {
    "headObject": "s3:GetObject",
    "getObject": "s3:GetObject",
    "putObject": "s3:PutObject",
    "createMultipartUpload": "s3:PutObject",
    "uploadPart": "s3:PutObject",
    "completeMultipartUpload": "s3:PutObject",
    "abortMultipartUpload": "s3:AbortMultipartUpload",
    "deleteObject": "s3:DeleteObject",
    "deleteObjects": "s3:DeleteObject",
    "listObjectsV2": "s3:ListBucket",
}


def find_refused_right(text: str) -> str | None:
    """Who refused what, in one line; None where the failure is another. In that line it is found again."""
    if match := DATABASE_PATTERN.search(text):
        return f"the catalog's database: {match[0]}"
    if match := KAFKA_PATTERN.search(text):
        return f"the brokers: {match[0]}"
    if match := STORE_PATTERN.search(text):
        words = "not authorized" if NOT_AUTHORIZED in text else match["words"].strip() or "access denied"
        return f"the object store: {_find_action(text)}: {words} (Service: S3, Status Code: 403)"
    return None


def summarize_failure(text: str, limit: int) -> str:
    """The first line of a failure's text, with the right that was refused wherever that stands in it."""
    text = text.strip()
    line = next(iter(text.splitlines()), "")[:limit]
    refusal = find_refused_right(text)
    more = f": {refusal}" if refusal and find_refused_right(line) != refusal else ""
    return line[: limit - len(more)] + more


def build_refused_right_error(place: str, refusal: str) -> ConfigurationError:
    """The error of a job, named by `place`, to which brokers, the catalog's database or the store refused something."""
    connection = "the Kafka connection" if refusal.startswith("the brokers: ") else "the catalog's connection"
    return ConfigurationError(
        f"{place}: Spark was refused a right by {refusal}; no incomplete batch was "
        f"published; give the user of {connection} the rights that docs/security.md lists"
    )


def _find_action(text: str) -> str:
    if match := ACTION_PATTERN.search(text):
        return match[0]
    calls = CALL_PATTERN.findall(text)
    return next((ACTIONS_BY_CALL[call] for call in calls if call in ACTIONS_BY_CALL), "an action")
