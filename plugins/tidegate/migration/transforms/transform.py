"""One single-message transform of a connector: its class, its options, and what became of each."""

from tidegate.migration.settings_ledger import SettingsLedger


class Transform:
    """The settings below ``<root><alias>.``.

    `is_refused`: an option is missing from the pipeline file; `is_refused_whole`: all of the transform's effect is.
    """

    def __init__(self, ledger: SettingsLedger, alias: str, root: str = "transforms.") -> None:
        self.alias = alias
        self.is_refused = False
        self.is_refused_whole = False
        self._ledger = ledger
        self._prefix = f"{root}{alias}."
        self._noted = set[str]()

    @property
    def short_class(self) -> str:
        """The class without its package, and without ``$Key`` or ``$Value``."""
        return self.get("type").rpartition(".")[2].partition("$")[0]

    @property
    def is_of_key(self) -> bool:
        return self.get("type").endswith("$Key")

    @property
    def is_conditional(self) -> bool:
        """Whether a predicate chooses its records; all but tombstones have a value that can be changed."""
        all_with_value = self.get_predicate("type").endswith(".RecordIsTombstone") and self.is_true("negate")
        return bool(self.get("predicate")) and not all_with_value

    @property
    def options(self) -> list[str]:
        """The given ones."""
        return [name.removeprefix(self._prefix) for name in self._ledger.list_names(self._prefix)]

    def get(self, option: str, default: str = "") -> str:
        return self._ledger.get(f"{self._prefix}{option}", default)

    def get_predicate(self, option: str) -> str:
        """An option of the predicate that chooses its records."""
        return self._ledger.get(f"predicates.{self.get('predicate')}.{option}")

    def is_true(self, option: str, *, default: bool = False) -> bool:
        return self._ledger.is_true(f"{self._prefix}{option}", default=default)

    def list_items(self, option: str) -> list[str]:
        return self._ledger.list_items(f"{self._prefix}{option}")

    def map(self, option: str, target: str, reason: str = "") -> None:
        """Note that `target` has the option's meaning."""
        self._noted.add(option)
        self._ledger.map(f"{self._prefix}{option}", target, reason)

    def drop(self, option: str, reason: str) -> None:
        """Note that the option is not needed."""
        self._noted.add(option)
        self._ledger.drop(f"{self._prefix}{option}", reason)

    def refuse(self, option: str, reason: str) -> None:
        """Note that the option is not mapped."""
        self._noted.add(option)
        if option in self.options:
            self.is_refused = True
            self._ledger.refuse(f"{self._prefix}{option}", reason)

    def map_all(self, target: str, reason: str = "") -> None:
        """Note all open options as mapped."""
        for option in self._list_open():
            self.map(option, target, reason)

    def drop_all(self, reason: str) -> None:
        """Note all open options as not needed."""
        for option in self._list_open():
            self.drop(option, reason)

    def refuse_all(self, reason: str) -> None:
        """Note every option as not mapped: the transform's effect is missing."""
        self.is_refused = self.is_refused_whole = True
        for option in self.options:
            self.refuse(option, reason)

    def refuse_rest(self, reason: str) -> None:
        """Note open options as not mapped."""
        for option in self._list_open():
            self.refuse(option, reason)

    def _list_open(self) -> list[str]:
        return [option for option in self.options if option not in self._noted]
