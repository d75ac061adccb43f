"""A deploy while tasks wait: the triggers that an older version stored are read from Airflow's database."""

from importlib import import_module

from upgrade.older_tree import VERSION
from upgrade.restore import read_kept


def test_triggers_that_an_older_version_stored_wait_on() -> None:
    for path, kwargs in read_kept(VERSION)["triggers"]:
        module, _, name = path.rpartition(".")
        trigger = getattr(import_module(module), name)(**kwargs)
        newer_path, newer = trigger.serialize()
        assert newer == kwargs
        assert newer_path != path, "stored anew, it has its new name"
