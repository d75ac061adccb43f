"""Whether brokers are there, let us in, and can be reached where they say that they are."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from tidegate.adapters.kafka.settings import to_java_settings
from tidegate.adapters.server_greeting import SILENCE_SECONDS, Greeting, is_silent
from tidegate.adapters.server_probe import Server, find_connection_failure
from tidegate.diagnosis.finding import Finding, from_error, make_error, make_ok
from tidegate.errors import ConfigurationError

LOGIN_SECONDS = 5.0  # a broker that lets nobody in closes the connection in silence, and the client tries again
POLL_SECONDS = 0.5
MISMATCH_SECONDS = 2.0  # so long brokers that close each connection at once are tried: one may just be starting
REACHABLE_ADVICE = "check that the brokers run, and that the address is the right one"
LOGIN_ADVICE = "check user, password and mechanism of the Kafka connection, and the certificate's authority"
MISMATCH_ADVICE = "check security.protocol of the Kafka connection: the brokers may want TLS, or a log-in"


class Cluster:
    """The brokers of one connection. `settings` are librdkafka's, secrets included; `place` is where they stand."""

    def __init__(self, settings: Mapping[str, str], place: str) -> None:
        self._settings = settings
        self._place = place
        self.servers = settings.get("bootstrap.servers") or settings.get("metadata.broker.list", "")
        self._errors: dict[int, str] = {}
        self._client: Any = None
        self.is_usable = False  # once brokers let us in, and are where they say

    @property
    def place(self) -> str:
        """The brokers, for messages."""
        return f"{self._place} brokers={self.servers}"

    @property
    def admin(self) -> Any:
        """The client; it may be used once `check` has found the cluster usable."""
        return self._client

    def check(self) -> Iterator[Finding]:
        """Settings, addresses, log-in, and the addresses that brokers advertise, until one of these is wrong."""
        try:
            to_java_settings(self._settings)
            self._client = AdminClient({**self._settings, "error_cb": self._note_error, "log_level": "0"})
        except ConfigurationError as error:
            yield from_error("kafka.settings", f"{self._place}: {error}")
            return
        except KafkaException as error:
            cause = f"{self._place}: Kafka's client refuses the settings: {error.args[0].str()}"
            yield make_error("kafka.settings", cause, "correct the extra of the Kafka connection")
            return
        server = Server.from_list("Kafka", self._place, self.servers)
        refusal = find_connection_failure(server.addresses)
        if refusal is not None:
            yield make_error("kafka.reachable", f"{self.place} took no connection: {refusal}", REACHABLE_ADVICE)
            return
        uses_tls = self._settings.get("security.protocol", "").upper().endswith("SSL")
        if is_silent(server, Greeting.KAFKA, uses_tls=uses_tls):
            cause = f"{self.place} took a connection and said nothing for {SILENCE_SECONDS:.0f} s"
            yield make_error("kafka.reachable", cause, REACHABLE_ADVICE)
            return
        metadata = self._read_metadata()
        if metadata is None:
            yield self._explain_silence()
            return
        yield make_ok("kafka.login", f"{self.place}: they let the connection's user in")
        yield from self._check_advertised(metadata)

    def _note_error(self, error: KafkaError) -> None:
        self._errors[error.code()] = error.str()

    def _read_metadata(self) -> Any:
        begin_seconds = time.monotonic()
        while (waited_seconds := time.monotonic() - begin_seconds) < LOGIN_SECONDS:
            if waited_seconds > MISMATCH_SECONDS and KafkaError._ALL_BROKERS_DOWN in self._errors:
                return None
            try:
                return self._client.list_topics(timeout=POLL_SECONDS)
            except KafkaException:
                self._client.poll(0)
                if self._errors.keys() & {KafkaError._AUTHENTICATION, KafkaError._SSL}:
                    return None
        return None

    def _explain_silence(self) -> Finding:
        """A log-in that is refused tells so; a client without TLS before a door with TLS only sees it closed."""
        for code in (KafkaError._AUTHENTICATION, KafkaError._SSL):
            if code in self._errors:
                reason = self._errors[code].partition(": ")[2] or self._errors[code]
                return make_error("kafka.login", f"{self.place} refuse the log-in: {reason}", LOGIN_ADVICE)
        protocol = self._settings.get("security.protocol", "plaintext")
        reasons = [text for code, text in self._errors.items() if code != KafkaError._ALL_BROKERS_DOWN]
        problem = f"{self.place} take connections and let no client in with security.protocol={protocol}"
        cause = ": ".join([problem, *reasons[:1]])
        return make_error("kafka.login", cause, MISMATCH_ADVICE)

    def _check_advertised(self, metadata: Any) -> Iterator[Finding]:
        brokers = sorted(metadata.brokers.values(), key=lambda broker: broker.id)
        silent = 0
        for broker in brokers:
            refusal = find_connection_failure([(broker.host, broker.port)])
            if refusal is not None:
                silent += 1
                yield make_error(
                    "kafka.brokers",
                    f"broker={broker.id} of {self._place} says that its address={broker.host}:{broker.port}, which "
                    f"took no connection: {refusal}",
                    "correct advertised.listeners of that broker, start it, or open the network to it",
                )
        self.is_usable = bool(brokers) and not silent
        if self.is_usable:
            yield make_ok("kafka.brokers", f"{self._place} brokers={len(brokers)}: each takes connections")
