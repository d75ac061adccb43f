"""Resolves librdkafka's settings, and translates them for Spark's Java client."""

from collections.abc import Mapping

from tidegate.adapters.server_probe import explain_address
from tidegate.connections import Resolve, name_variable, require_connection
from tidegate.errors import ConfigurationError

# librdkafka's name -> the Java client's, where only the name differs.
JAVA_NAMES = {
    "metadata.broker.list": "bootstrap.servers",
    "sasl.mechanisms": "sasl.mechanism",
    "ssl.key.pem": "ssl.keystore.key",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "socket.send.buffer.bytes": "send.buffer.bytes",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
}
# Meaningless to Java: logging, callbacks and librdkafka's own queues; or ours to decide, not the user's.
_LIBRDKAFKA_ONLY = """
    debug log_level log.queue log.thread.name log.connection.close builtin.features opaque statistics.interval.ms
    api.version.request api.version.request.timeout.ms api.version.fallback.ms broker.version.fallback
    broker.address.family broker.address.ttl enable.sasl.oauthbearer.unsecure.jwt enable.ssl.certificate.verification
    enable.partition.eof enable.auto.offset.store enable.auto.commit group.id auto.offset.reset isolation.level
    queued.min.messages queued.max.messages.kbytes fetch.error.backoff.ms consume.callback.max.messages
    message.max.bytes message.copy.max.bytes receive.message.max.bytes
    max.in.flight max.in.flight.requests.per.connection partition.assignment.strategy
    socket.keepalive.enable socket.nagle.disable socket.max.fails socket.timeout.ms socket.blocking.max.ms
    socket.connection.setup.timeout.ms internal.termination.signal plugin.library.paths
    topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.sparse topic.metadata.propagation.max.ms
    topic.blacklist sasl.kerberos.keytab sasl.kerberos.principal sasl.kerberos.kinit.cmd
    ssl.crl.location ssl.curves.list ssl.sigalgs.list ssl.engine.id ssl.providers
"""
ADDRESS_SETTINGS = ("bootstrap.servers", "metadata.broker.list")
LIBRDKAFKA_ONLY = frozenset(_LIBRDKAFKA_ONLY.split())
# Folded into other settings by the functions below.
_CONVERTED = """
    sasl.username sasl.password ssl.ca.location ssl.ca.pem ssl.key.location ssl.certificate.location
    sasl.oauthbearer.client.id sasl.oauthbearer.client.secret sasl.oauthbearer.scope sasl.oauthbearer.method
    sasl.oauthbearer.extensions sasl.oauthbearer.config
"""
CONVERTED = frozenset(_CONVERTED.split())
# A connection made for Airflow's own consumer carries these; in a pipeline they are decided elsewhere.
IGNORED_SETTINGS = (
    "group.id",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "auto.offset.reset",
    "isolation.level",
)
LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
OAUTH_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"


def resolve_kafka_settings(kafka: str | Mapping[str, str], resolve: Resolve) -> dict[str, str]:
    """librdkafka's settings: inline `kafka`, or from the connection of that id (its extra, host and login).

    `ConfigurationError` without an address of host and port: Kafka's Java client refuses others.
    """
    settings = dict(kafka) if not isinstance(kafka, str) else _read_connection(kafka, resolve)
    if (problem := explain_addresses(settings)) is not None:
        raise ConfigurationError(f"{describe_kafka_place(kafka)}: bootstrap.servers: {problem}")
    if (addresses := settings.pop("metadata.broker.list", None)) is not None:  # the same under an older name
        settings.setdefault("bootstrap.servers", addresses)
    return settings


def _read_connection(kafka: str, resolve: Resolve) -> dict[str, str]:
    connection = require_connection(kafka, resolve)
    given = {n: v for n, v in connection.extra.items() if n not in IGNORED_SETTINGS and not n.endswith("_cb")}
    settings = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in given.items()}
    if connection.host:
        place = f"{connection.host}:{connection.port}" if connection.port else connection.host
        settings.setdefault("bootstrap.servers", place)
    for name, value in (("sasl.username", connection.login), ("sasl.password", connection.password)):
        if value is not None:
            settings.setdefault(name, value)
    if not has_addresses(settings):
        extra_place = f"the connection's extra ({name_variable(kafka)})"
        raise ConfigurationError(f"connection={kafka}: bootstrap.servers is missing; add it to {extra_place}")
    return settings


def has_addresses(settings: Mapping[str, str]) -> bool:
    """Whether the settings name a broker; blanks and commas alone name none."""
    return any(settings.get(name, "").replace(",", "").strip() for name in ADDRESS_SETTINGS)


def explain_addresses(settings: Mapping[str, str]) -> str | None:
    """What is wrong with the first bad address, and the way out: librdkafka would look for it for ever."""
    addresses = (address for name in ADDRESS_SETTINGS for address in settings.get(name, "").split(","))
    problems = (explain_address(address, needs_port=True) for address in addresses if address.strip())
    return next((problem for problem in problems if problem is not None), None)


def describe_kafka_place(kafka: str | Mapping[str, str]) -> str:
    """Where the brokers' addresses stand, for messages."""
    return f"connection={kafka}" if isinstance(kafka, str) else "kafka of the file"


def to_java_settings(librdkafka: Mapping[str, str]) -> dict[str, str]:
    """For Kafka's Java client, without the prefix ``kafka.``; drops names that have no meaning there."""
    plain = {n: v for n, v in librdkafka.items() if n not in LIBRDKAFKA_ONLY and n not in CONVERTED}
    java = {JAVA_NAMES.get(name, name): value for name, value in plain.items()}
    if "security.protocol" in java:
        java["security.protocol"] = java["security.protocol"].upper()
    if java.get("ssl.endpoint.identification.algorithm") == "none":
        java["ssl.endpoint.identification.algorithm"] = ""  # Java's way to say none
    java |= _build_truststore(librdkafka) | _build_keystore(librdkafka) | _build_sasl(librdkafka)
    verification = librdkafka.get("enable.ssl.certificate.verification", "true")
    if verification.lower() in ("false", "f", "0"):  # the words that librdkafka takes
        raise ConfigurationError(
            f"enable.ssl.certificate.verification={verification}: the Java client always verifies; give "
            "ssl.ca.location instead"
        )
    return java


def _build_truststore(settings: Mapping[str, str]) -> dict[str, str]:
    if "ssl.ca.pem" in settings:
        return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": settings["ssl.ca.pem"]}
    if settings.get("ssl.ca.location", "probe") != "probe":
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": settings["ssl.ca.location"]}
    return {}


def _build_keystore(settings: Mapping[str, str]) -> dict[str, str]:
    if "ssl.key.pem" in settings:
        return {"ssl.keystore.type": "PEM"}
    if "ssl.keystore.location" in settings:
        return {"ssl.keystore.type": "PKCS12"}  # the only kind that librdkafka reads
    if "ssl.key.location" not in settings:
        return {}
    if settings.get("ssl.certificate.location", settings["ssl.key.location"]) != settings["ssl.key.location"]:
        raise ConfigurationError(
            "ssl.key.location: the Java client wants key and certificates in one PEM file; "
            "name that one file in ssl.key.location and ssl.certificate.location, or use ssl.keystore.location"
        )
    return {"ssl.keystore.type": "PEM", "ssl.keystore.location": settings["ssl.key.location"]}


def _build_sasl(settings: Mapping[str, str]) -> dict[str, str]:
    mechanism = (settings.get("sasl.mechanisms") or settings.get("sasl.mechanism") or "").upper()
    if mechanism in LOGIN_MODULES and "sasl.username" in settings:
        options = {"username": settings["sasl.username"], "password": settings.get("sasl.password", "")}
        return {"sasl.jaas.config": _format_jaas_entry(LOGIN_MODULES[mechanism], options)}
    if mechanism == "OAUTHBEARER" and "sasl.oauthbearer.client.id" in settings:
        words = {"clientId": "client.id", "clientSecret": "client.secret", "scope": "scope"}
        options = {
            o: settings[f"sasl.oauthbearer.{n}"] for o, n in words.items() if f"sasl.oauthbearer.{n}" in settings
        }
        for extension in filter(None, settings.get("sasl.oauthbearer.extensions", "").split(",")):
            name, _, value = extension.partition("=")
            options[f"extension_{name.strip()}"] = value
        return {
            "sasl.jaas.config": _format_jaas_entry(OAUTH_MODULE, options),
            "sasl.login.callback.handler.class": OAUTH_HANDLER,
        }
    return {}


def _format_jaas_entry(module: str, options: Mapping[str, str]) -> str:
    # quotes and backslashes inside a value would end it early
    quoted = (f'{name}="{_escape(value)}"' for name, value in options.items())
    return f"{module} required {' '.join(quoted)};"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')
