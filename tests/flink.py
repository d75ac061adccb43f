"""Flink SQL in one process, as a reader of topics and tables: the jars of the benchmarks' peer, and a program."""

import base64
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import jars
from local.server import build_clean_environment

PEER, DEADLINE_SECONDS, SECONDS_EACH = "flink", 300, 10
MODULES = ("lang", "lang.invoke", "lang.reflect", "util", "util.concurrent", "net", "io", "nio", "time", "text", "math")
# Prints each row that a query changes: the query's number, the kind of the change, and its fields as texts; of a list,
# a map or a row JSON of texts, and of bytes hexadecimal digits. And each query that fails, with the innermost reason.
PROGRAM = r"""
import java.lang.reflect.Array;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HexFormat;
import java.util.Map;
import java.util.StringJoiner;
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
    settings.setString("execution.runtime-mode", System.getProperty("mode"));
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
      } catch (Throwable failure) {
        Throwable reason = failure;
        while (reason.getCause() != null) {
          reason = reason.getCause();
        }
        System.out.println("refused " + number + " ." + encode(reason.toString()));
      }
    }
    System.exit(0);
  }

  static void print(int number, Row row) {
    StringBuilder line = new StringBuilder("change " + number + " " + row.getKind().shortString());
    for (int field = 0; field < row.getArity(); field++) {
      Object value = row.getField(field);
      line.append(" ").append(value == null ? "-" : "." + encode(render(value)));
    }
    System.out.println(line);
  }

  static String encode(String text) {
    return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
  }

  static String render(Object value) {
    if (value instanceof byte[] bytes) {
      return HexFormat.of().formatHex(bytes);
    }
    StringJoiner parts = new StringJoiner(",", "[", "]");
    if (value instanceof Row row) {
      for (int field = 0; field < row.getArity(); field++) {
        parts.add(quote(row.getField(field)));
      }
    } else if (value instanceof Map<?, ?> map) {
      map.forEach((name, part) -> parts.add("[" + quote(name) + "," + quote(part) + "]"));
    } else if (value.getClass().isArray()) {
      for (int place = 0; place < Array.getLength(value); place++) {
        parts.add(quote(Array.get(value, place)));
      }
    } else {
      return value instanceof BigDecimal number ? number.toPlainString() : String.valueOf(value);
    }
    return parts.toString();
  }

  static String quote(Object value) {
    if (value == null) {
      return "null";
    }
    boolean isWhole = value instanceof Row || value instanceof Map<?, ?>
        || value.getClass().isArray() && !(value instanceof byte[]);
    String escaped = render(value).replace("\\", "\\\\").replace("\"", "\\\"");
    return isWhole ? render(value) : '"' + escaped + '"';
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
    lines = _run_program(folder, "streaming", statements, DEADLINE_SECONDS)
    assert not any(line.startswith("refused ") for line in lines), lines
    return _collect_changes(lines)


def read(folder: Path, *statements: str) -> dict[int, list[tuple[str | None, ...]] | str]:
    """Run statements over tables that end; return the rows of each SELECT by its number, or why it failed."""
    lines = _run_program(folder, "batch", statements, DEADLINE_SECONDS + SECONDS_EACH * len(statements))
    answers: dict[int, list[tuple[str | None, ...]] | str] = {
        number: [] for number, statement in enumerate(statements) if statement.startswith("SELECT")
    }
    for number, changes in _collect_changes(lines).items():
        answers[number] = [change.fields for change in changes]
    for line in lines:
        if line.startswith("refused "):
            _, failed, reason = line.split(" ")
            answers[int(failed)] = _parse_field(reason) or ""
    return answers


def _run_program(folder: Path, mode: str, statements: Sequence[str], seconds: int) -> list[str]:
    assert jars.find_folder(PEER).exists(), "the jars of Flink are missing: run make test-setup TESTS=long"
    source = folder / "Changes.java"
    source.write_text(PROGRAM)
    opens = [f"--add-opens=java.base/java.{module}=ALL-UNNAMED" for module in MODULES]
    command = ["java", "-Xmx1g", f"-Dmode={mode}", *opens, "-cp", jars.build_classpath(PEER), str(source), *statements]
    process = subprocess.run(
        command,
        env=build_clean_environment(),
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert process.returncode == 0, process.stderr[-4000:]
    return process.stdout.splitlines()


def _collect_changes(lines: Sequence[str]) -> dict[int, list[Change]]:
    changes: dict[int, list[Change]] = {}
    for line in lines:
        if line.startswith("change "):
            _, number, kind, *fields = line.split(" ")
            changes.setdefault(int(number), []).append(Change(kind, tuple(map(_parse_field, fields))))
    return changes


def _parse_field(text: str) -> str | None:
    return None if text == "-" else base64.b64decode(text[1:]).decode()
