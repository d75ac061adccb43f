"""Every failure by its name, in the order of the table."""

from night.failure import Failure
from night.failures.catalogs import CatalogAway, CatalogLocked, CredentialsRotated
from night.failures.machines import ClockSkew, DiskFull, TwoRunners, WrongFile
from night.failures.publications import RecordTooLarge, TopicNotCompacted
from night.failures.records import DeadLetterFlood, PoisonRecord
from night.failures.servers import KafkaDead, RegistryDead, SparkDeadMidMerge, SparkOutOfMemory
from night.failures.tables import BranchProtected, TableReplaced, TableRolledBack
from night.failures.topics import PartitionsGrown, RetentionPassed, TopicDeleted, TopicRecreated

FAILURES: dict[str, type[Failure]] = {
    "poison_record": PoisonRecord,
    "record_too_large": RecordTooLarge,
    "topic_deleted": TopicDeleted,
    "topic_recreated": TopicRecreated,
    "partitions_grown": PartitionsGrown,
    "retention_passed": RetentionPassed,
    "table_rolled_back": TableRolledBack,
    "table_replaced": TableReplaced,
    "catalog_away": CatalogAway,
    "catalog_locked": CatalogLocked,
    "credentials_rotated": CredentialsRotated,
    "spark_dead": SparkDeadMidMerge,
    "spark_memory": SparkOutOfMemory,
    "kafka_dead": KafkaDead,
    "registry_dead": RegistryDead,
    "disk_full": DiskFull,
    "clock_skew": ClockSkew,
    "wrong_file": WrongFile,
    "two_runners": TwoRunners,
    "branch_protected": BranchProtected,
    "dead_letter_flood": DeadLetterFlood,
    "topic_not_compacted": TopicNotCompacted,
}
