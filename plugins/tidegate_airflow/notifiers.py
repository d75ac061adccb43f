"""Who is told of a failed run: Airflow's notifiers, as the pipeline file names them."""

import importlib
from collections.abc import Callable
from typing import Any

from airflow.sdk import Context
from airflow.sdk.bases.notifier import BaseNotifier
from tidegate.errors import ConfigurationError
from tidegate.spec.pipeline import Notifier, Pipeline


def build_failure_callbacks(pipeline: Pipeline) -> list[Callable[[Context], None]]:
    """A callback of the DAG for each notifier. Its class is imported when it is called, not when the DAG is read."""
    return [_build_callback(notifier) for notifier in pipeline.on_failure]


def _build_callback(notifier: Notifier) -> Callable[[Context], None]:
    def tell(context: Context) -> None:
        _load_notifier(notifier.path)(**notifier.kwargs)(context)

    return tell


def _load_notifier(path: str) -> Any:
    module, _, name = path.rpartition(".")
    try:
        notifier_class = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as fault:
        raise ConfigurationError(f"on_failure.notifier={path}: {fault}; install its provider, or correct it") from fault
    if not (isinstance(notifier_class, type) and issubclass(notifier_class, BaseNotifier)):
        raise ConfigurationError(f"on_failure.notifier={path}: not a notifier of Airflow's; name a class of one")
    return notifier_class
