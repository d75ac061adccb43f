"""The table of checks, in the order in which what they find is fixed: each one needs those above it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """One check: what it looks at, and what to do where an error does not say it."""

    name: str
    description: str
    advice: str


CHECKS = (
    Check(
        "files.environment",
        "Python's version, `TIDEGATE_INCLUDE`, the include folder",
        "set TIDEGATE_INCLUDE to a folder with catalogs.yaml and pipelines/",
    ),
    Check("files.catalogs", "`catalogs.yaml`, as `validate` reads it", "correct catalogs.yaml"),
    Check(
        "files.pipelines",
        "every pipeline file, as `validate` reads it, and that no two commit one topic to one group",
        "correct the pipeline file",
    ),
    Check("files.publications", "every publication file, as `validate` reads it", "correct the publication file"),
    Check(
        "files.secrets",
        "passwords, tokens and private keys in any file of the include folder",
        "put the secret into an Airflow connection, and change it: it may be in the history of the files",
    ),
    Check(
        "files.connections",
        "connections that files name and nobody has defined, or that cannot be read",
        "define the connection",
    ),
    Check(
        "kafka.settings",
        "the Kafka connection's settings, for librdkafka and for Spark's Java client",
        "correct the extra of the Kafka connection",
    ),
    Check(
        "kafka.reachable",
        "the brokers' addresses take connections",
        "check that the brokers run, and that the address is the right one",
    ),
    Check(
        "kafka.login",
        "TLS and log-in",
        "check user, password and mechanism of the Kafka connection, and the certificate's authority",
    ),
    Check(
        "kafka.brokers",
        "the addresses that the brokers advertise take connections, too",
        "correct advertised.listeners of the broker, or open the network to it",
    ),
    Check(
        "kafka.topics",
        "the topics exist, may be described and read, and each partition has a leader",
        "create the topic, or correct source.topics",
    ),
    Check(
        "kafka.group",
        "the user may commit offsets of `source.group`, and nobody else does",
        "give the connection's user READ on the group",
    ),
    Check(
        "kafka.retention",
        "records and tombstones stay longer than the pause between two flushes",
        "raise retention.ms of the topic",
    ),
    Check(
        "kafka.message_size",
        "`max.message.bytes` of each topic against what our client takes",
        "raise receive.message.max.bytes in the Kafka connection",
    ),
    Check(
        "kafka.publications",
        "topics that are produced to: right to write, `cleanup.policy=compact`",
        "give the connection's user WRITE on the topic",
    ),
    Check("kafka.clock", "no topic's newest record has a time in the future", "set the clocks by NTP"),
    Check(
        "registry.reachable",
        "the schema registry's address takes connections, and answers",
        "check that the registry runs, and that the address is the right one",
    ),
    Check("registry.login", "the registry's log-in", "check the connection's login and rights"),
    Check("registry.subjects", "the subjects that pipelines need exist", "register a schema, or correct the subject"),
    Check(
        "registry.schema",
        "each schema can be read, and gives the declared columns without loss",
        "correct the columns, or leave schema out",
    ),
    Check(
        "catalog.reachable",
        "the catalog's servers take connections",
        "check that the catalog runs, and that the address is the right one",
    ),
    Check(
        "catalog.login",
        "the catalog's log-in",
        "correct the login, the password or the rights of the catalog's connection",
    ),
    Check(
        "catalog.namespace",
        "namespace or dataset of each table exists, or can be created",
        "create the namespace, or give the right to create it",
    ),
    Check(
        "catalog.commit",
        "right to commit: a branch on a scratch table; of BigQuery a dry run",
        "give the catalog's login the rights of a writer",
    ),
    Check(
        "catalog.store",
        "a file of the scratch table, or of the staging folder, is written, read and deleted",
        "give the login read, write, list and delete below the warehouse",
    ),
    Check(
        "catalog.tables",
        "each destination table's format version, columns, key and owner fit the pipeline",
        "correct the pipeline file, or write to another table",
    ),
    Check(
        "pipeline.position",
        "as `plan` reads it: positions of tables, and the progress of publications, still fit the topics, and no dead "
        "letter or rolled-back backfill waits that nobody brings in",
        "see `tidegate status`; docs/operations.md has the way out for each",
    ),
    Check(
        "spark.settings",
        "where Spark is, and `spark.conf` of the files",
        "correct the Spark connection, or spark of the pipeline file",
    ),
    Check(
        "spark.reachable",
        "the Connect server or the master takes connections, and runs a statement",
        "start Spark, and see its log",
    ),
    Check(
        "spark.login",
        "the Connect server's token",
        "check the token (the connection's password), and that the server was started with it",
    ),
    Check(
        "spark.version",
        "Spark's version is the client's",
        "run the Spark whose version is that of the installed pyspark",
    ),
    Check(
        "spark.jars",
        "Iceberg's runtime, Kafka source, Avro and JDBC driver: there, once, and of Spark's version",
        "fetch them with `tidegate jars`, put them into Spark's jars/, and restart it",
    ),
    Check(
        "spark.extensions",
        "`spark.sql.extensions` has Iceberg's",
        "start Spark with spark.sql.extensions=org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    ),
    Check(
        "spark.catalogs",
        "Spark reaches each catalog, with the settings that jobs get",
        "check that Spark's machines reach the catalog, and that its driver is among the jars",
    ),
    Check(
        "spark.limits", "time zone, the driver's memory, limits of Avro's decoder", "set them where Spark is started"
    ),
    Check("spark.clock", "Spark's clock against this machine's", "set the clocks by NTP"),
    Check("airflow.environment", "Airflow's version, its database, its DAG and plugin folders", "correct airflow.cfg"),
    Check(
        "airflow.plugin",
        "Tidegate's plugin is loaded, its DAG files lie in `dags_folder` or Airflow has read them from a bundle, and "
        "none of them fails",
        "point [core] plugins_folder at plugins/, and dags_folder at dags/",
    ),
    Check("airflow.connections", "Airflow knows the connections that files name", "create the connection in Airflow"),
    Check(
        "airflow.pools",
        "a pool for each catalog that files name; `[core] parallelism` against its slots",
        "restart Airflow's scheduler, which makes the pools",
    ),
    Check("airflow.services", "scheduler, triggerer and DAG processor are alive", "start the service"),
)
ORDER = {check.name: number for number, check in enumerate(CHECKS)}
ADVICE = {check.name: check.advice for check in CHECKS}
