"""What a form asks for: the action and its parameters; refuses those that do not fit."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tidegate.errors import ConfigurationError, GiveUp
from tidegate.merge.owed import LetterFilter
from tidegate.ports.session import Session
from tidegate.reprocess.approve import propose_decision, propose_reject
from tidegate.reprocess.discard import propose_discard
from tidegate.reprocess.explain import propose_explain
from tidegate.reprocess.proposed_action import ProposedAction
from tidegate.reprocess.rebase import propose_rebase
from tidegate.reprocess.record import parse_address, propose_look
from tidegate.reprocess.rollback import propose_answer, propose_undo
from tidegate.reprocess.skip import propose_skip
from tidegate.spec.time_text import EXAMPLE, parse_timestamp_ms
from tidegate.table.approval import DecisionKind

LETTER_WORDS = ("table", "topic", "reason", "since", "offsets")


class ActionKind(StrEnum):
    """The actions, by the word that the history of a table keeps."""

    SKIP = "skip"
    UNDO_ROLLBACK = "undo-rollback"
    REWIND = "rewind"
    KEEP = "keep"
    REBASE = "rebase"
    DISCARD = "discard"
    APPROVE = "approve"
    REJECT = "reject"
    LOOK = "look"
    EXPLAIN = "explain"


@dataclass(frozen=True)
class ActionForm:
    """The parameters of an action, those that are required, and how it is proposed."""

    params: tuple[str, ...]
    required_params: tuple[str, ...]
    propose: Callable[[Session, Mapping[str, Any]], ProposedAction]


FORMS = {
    ActionKind.SKIP: ActionForm(
        ("at", "table"),
        ("at",),
        lambda session, words: propose_skip(session, parse_address(words["at"], "at"), words.get("table")),
    ),
    ActionKind.UNDO_ROLLBACK: ActionForm(
        ("table", "discard_foreign"),
        (),
        lambda session, words: propose_undo(
            session, words.get("table"), discard_foreign=bool(words.get("discard_foreign"))
        ),
    ),
    ActionKind.REWIND: ActionForm(
        ("table",), (), lambda session, words: propose_answer(session, "rewind", words.get("table"))
    ),
    ActionKind.KEEP: ActionForm(
        ("table",), (), lambda session, words: propose_answer(session, "keep", words.get("table"))
    ),
    ActionKind.REBASE: ActionForm(
        ("to", "table"), ("to",), lambda session, words: propose_rebase(session, words["to"], words.get("table"))
    ),
    ActionKind.DISCARD: ActionForm(
        (*LETTER_WORDS, "because"),
        ("because",),
        lambda session, words: propose_discard(session, build_letter_filter(words), words["because"]),
    ),
    ActionKind.APPROVE: ActionForm(
        ("table",), (), lambda session, words: propose_decision(session, DecisionKind.APPROVE, words.get("table"))
    ),
    ActionKind.REJECT: ActionForm(
        ("table", "skip"),
        (),
        lambda session, words: propose_reject(session, words.get("table"), skip=bool(words.get("skip"))),
    ),
    ActionKind.LOOK: ActionForm(
        ("around", "table"),
        ("around",),
        lambda session, words: propose_look(session, words["around"], words.get("table")),
    ),
    ActionKind.EXPLAIN: ActionForm(
        ("key", "table"),
        ("key",),
        lambda session, words: propose_explain(session, words["key"], words.get("table")),
    ),
}


def refuse_strange_words(given_words: Iterable[str], known: Iterable[str]) -> None:
    """`ConfigurationError` for unknown parameters."""
    words = tuple(known)
    strange = sorted(set(given_words) - set(words))
    # a program that misspells one would ask for more than it means
    if strange:
        raise ConfigurationError(
            f"{', '.join(strange)}: unknown parameter; there are: {', '.join(words)}; nothing was changed"
        )


WORDS = tuple(dict.fromkeys(word for form in FORMS.values() for word in form.params))
FORM_WORDS = ("action", "preview", *WORDS, "previewed")


def propose_action(session: Session, params: Mapping[str, Any]) -> ProposedAction:
    """`params`: `action` and its parameters; empty or false ones count as missing.

    `ConfigurationError` for one that the action does not take, and for a missing one.
    """
    word: Any = params.get("action")
    try:
        kind = ActionKind(word)
    except ValueError as error:
        raise ConfigurationError(f"action={word}: unknown action; there are: {', '.join(ActionKind)}") from error
    form = FORMS[kind]
    words = {word: params[word] for word in WORDS if params.get(word)}
    strange = [f"{word}={words[word]}" for word in words if word not in form.params]
    if strange:
        raise ConfigurationError(
            f"action={kind} does not take {', '.join(strange)}; its parameters are: {', '.join(form.params)}; nothing "
            "was changed"
        )
    missing = [word for word in form.required_params if word not in words]
    if missing:
        raise ConfigurationError(
            f"action={kind}: missing parameter: {', '.join(missing)}; nothing was changed; give it"
        )
    return form.propose(session, words)


def check_unchanged(action: ProposedAction, digest: str) -> None:
    """`GiveUp` if the action is no longer what a person was shown."""
    if digest and digest != action.digest:
        raise GiveUp(
            f"previewed={digest}: the effect has changed since the preview, so nothing was changed; "
            f"look at the preview again:\n{action.preview}"
        )


def refuse_unseen_repeat(kind: str, digest: str) -> None:
    """`GiveUp` for a cleared run without a preview: it may be done already, and its words may mean something else."""
    if not digest:
        raise GiveUp(
            f"action={kind}: this run was cleared, and it names no preview; what it was started for may be "
            "done, and the same parameters may do something else by now: nothing was changed; start the DAG again with "
            "preview"
        )


def build_letter_filter(words: Mapping[str, Any]) -> LetterFilter:
    """From table, topic, reason, since and offsets, each of which may be missing."""
    since = words.get("since")
    places: frozenset[tuple[str, int, int]] = frozenset(
        parse_address(text, "offsets") for text in words.get("offsets") or ()
    )
    return LetterFilter(
        table=words.get("table") or None,
        topic=words.get("topic") or None,
        reason=words.get("reason") or None,
        since_ms=parse_timestamp_ms("since", since, f"write e.g. {EXAMPLE}") if since else None,
        places=places,
    )
