"""What becomes of each kind of failure in Airflow: a retry, a skip, or a red task that waits for a person."""

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from tidegate.errors import GiveUp, NothingToDo, PublishedElsewhere, TidegateError


@contextmanager
def told_to_airflow() -> Iterator[None]:
    """Translate the core's errors: no work and lost races skip, what a person must mend fails, the rest is retried."""
    try:
        yield
    except (NothingToDo, PublishedElsewhere) as reason:
        raise AirflowSkipException(str(reason)) from reason
    except GiveUp as problem:
        raise AirflowFailException(str(problem)) from problem
    except TidegateError as passing:
        raise AirflowException(str(passing)) from passing
