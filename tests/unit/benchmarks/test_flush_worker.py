"""The bench's clocks: they are set around the product's own functions, which must be there under these names."""

import importlib

from benchmarks.flush_worker import STEPS


def test_step_that_was_renamed_is_measured_under_the_name_of_its_task() -> None:
    functions = {module: importlib.import_module(module) for module in STEPS}
    missing = [
        f"{module}.{function}"
        for module, names in STEPS.items()
        for function in names
        if not callable(getattr(functions[module], function, None))
    ]
    assert not missing
    assert {name for names in STEPS.values() for name in names.values()} >= {"plan", "stage", "merge", "clean_up"}
