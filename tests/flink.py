"""Flink SQL in one process, as a reader of topics: jars of the benchmarks' peer, and a program that prints changes."""

import base64
import subprocess
from dataclasses import dataclass
from pathlib import Path

from benchmarks import jars
from local.server import build_clean_environment

PEER, DEADLINE_SECONDS = "flink", 300
MODULES = ("lang", "lang.invoke", "lang.reflect", "util", "util.concurrent", "net", "io", "nio", "time", "text", "math")
# each row that a query changes: the query's number, the kind of the change, and its fields as texts
PROGRAM = """
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;

public class Changes {
  public static void main(String[] statements) throws Exception {
    Configuration settings = new Configuration();
    settings.setString("rest.port", "0");
    settings.setString("taskmanager.memory.managed.size", "64m");
    settings.setString("taskmanager.numberOfTaskSlots", "2");
    settings.setString("table.local-time-zone", "UTC");
    StreamTableEnvironment flink = StreamTableEnvironment.create(
        StreamExecutionEnvironment.createLocalEnvironment(2, settings));
    for (int number = 0; number < statements.length; number++) {
      if (!statements[number].startsWith("SELECT")) {
        flink.executeSql(statements[number]);
        continue;
      }
      try (CloseableIterator<Row> rows = flink.executeSql(statements[number]).collect()) {
        while (rows.hasNext()) {
          print(number, rows.next());
        }
      }
    }
    System.exit(0);
  }

  static void print(int number, Row row) {
    StringBuilder line = new StringBuilder("change " + number + " " + row.getKind().shortString());
    for (int field = 0; field < row.getArity(); field++) {
      Object value = row.getField(field);
      byte[] text = String.valueOf(value).getBytes(StandardCharsets.UTF_8);
      line.append(" ").append(value == null ? "-" : "." + Base64.getEncoder().encodeToString(text));
    }
    System.out.println(line);
  }
}
"""


@dataclass(frozen=True)
class Change:
    """A row of a query's changelog: +I, -U, +U or -D, and each field as Flink prints it."""

    kind: str
    fields: tuple[str | None, ...]


def bring() -> str:
    """Fetch the jars if they are not there; return why that is impossible, or nothing."""
    return jars.fetch_jars(PEER)


def run(folder: Path, *statements: str) -> dict[int, list[Change]]:
    """Run statements of Flink SQL; return what each SELECT among them changed, by its number, in Flink's order."""
    assert jars.find_folder(PEER).exists(), "the jars of Flink are missing: run make test-setup TESTS=long"
    source = folder / "Changes.java"
    source.write_text(PROGRAM)
    opens = [f"--add-opens=java.base/java.{module}=ALL-UNNAMED" for module in MODULES]
    command = ["java", "-Xmx1g", *opens, "-cp", jars.build_classpath(PEER), str(source), *statements]
    process = subprocess.run(
        command,
        env=build_clean_environment(),
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert process.returncode == 0, process.stderr[-4000:]
    changes: dict[int, list[Change]] = {}
    for line in process.stdout.splitlines():
        if line.startswith("change "):
            _, number, kind, *fields = line.split(" ")
            changes.setdefault(int(number), []).append(Change(kind, tuple(map(_parse_field, fields))))
    return changes


def _parse_field(text: str) -> str | None:
    return None if text == "-" else base64.b64decode(text[1:]).decode()
