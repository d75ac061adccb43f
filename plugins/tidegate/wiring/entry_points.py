"""Finds the user's own code that has a say in what is reported: ``module:function`` below plugins/ or dags/."""

import importlib
import sys
from collections.abc import Callable
from typing import Any

from tidegate.errors import ConfigurationError
from tidegate.settings import find_home_folder


def build_hook(entry_point: str | None) -> Callable[..., Any] | None:
    """A function that loads the entry point when it is first called; ConfigurationError then, if there is none."""
    if entry_point is None:
        return None

    def call(*arguments: Any) -> Any:
        return _load_entry_point(entry_point)(*arguments)

    return call


def _load_entry_point(entry_point: str) -> Callable[..., Any]:
    module, _, function = entry_point.partition(":")
    for folder in ("plugins", "dags"):
        path = str(find_home_folder() / folder)
        if path not in sys.path:
            sys.path.append(path)
    try:
        hook = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as fault:
        raise ConfigurationError(
            f"heartbeat.hook={entry_point}: {fault}; put the module into plugins/ or dags/, and name module:function"
        ) from fault
    if not callable(hook):
        raise ConfigurationError(f"heartbeat.hook={entry_point}: not a function; name one as module:function")
    hook_function: Callable[..., Any] = hook
    return hook_function
