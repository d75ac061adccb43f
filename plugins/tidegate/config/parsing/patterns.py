"""Regular expressions of a pipeline file: those that Tidegate reads itself, and those that Spark reads as Java's."""

import re

EXAMPLE = "write e.g. 'shop\\.public\\..*'"
JAVA_QUOTE_PATTERN = re.compile(r"\\Q(.*?)(?:\\E|\Z)", re.DOTALL)
# what Java reads and Python does not, each with something that both read
JAVA_FORMS = (
    (re.compile(r"\\[pP](?:\{[^}]*\}|\w)"), r"\\w"),
    (re.compile(r"\\[hHRXGzeK]"), r"\\w"),
    (re.compile(r"\\x\{[0-9A-Fa-f]+\}"), r"x"),
    (re.compile(r"\(\?<(?![=!])(\w+)>"), r"(?P<\1>"),
    (re.compile(r"\\k<(\w+)>"), r"(?P=\1)"),
)
PYTHON_FORMS = ("(?P", "(?#", "(?(", "(?a", "(?L")


def compile_pattern(text: str) -> re.Pattern[str]:
    """The regular expression that Tidegate itself holds against names of topics; ValueError says why it is none."""
    try:
        return re.compile(text)
    except RecursionError:
        raise ValueError(f"not a regular expression (brackets nest too deep); {EXAMPLE}") from None
    except (re.error, OverflowError) as fault:
        raise ValueError(f"not a regular expression ({fault}); {EXAMPLE}") from None


def check_java_pattern(text: str) -> None:
    """ValueError where Java cannot read a regular expression, as far as that can be told without a JVM.

    The flush reports the rest, when Spark has refused the pattern.
    """
    as_python = JAVA_QUOTE_PATTERN.sub(lambda quoted: re.escape(quoted[1]), text)
    foreign = next((form for form in PYTHON_FORMS if form in as_python), None)
    if foreign is not None:
        raise ValueError(f"not a regular expression of Java's, which has no {foreign}; {EXAMPLE}")
    for java, python in JAVA_FORMS:
        as_python = java.sub(python, as_python)
    compile_pattern(as_python)
