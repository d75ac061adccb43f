"""What a form asks for: the action and its parameters; refuses those that do not fit."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
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

LETTER_PARAM_NAMES = ("table", "topic", "reason", "since", "offsets")


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
    """The parameters of an action, those that are required, and how it is proposed: by the given ones, by name."""

    params: tuple[str, ...]
    required_params: tuple[str, ...]
    propose: Callable[..., ProposedAction]


FORMS = {
    ActionKind.SKIP: ActionForm(
        ("at", "table"),
        ("at",),
        lambda session, at, table=None: propose_skip(session, parse_address(at, "at"), table),
    ),
    ActionKind.UNDO_ROLLBACK: ActionForm(("table", "discard_foreign"), (), propose_undo),
    ActionKind.REWIND: ActionForm(("table",), (), partial(propose_answer, answer="rewind")),
    ActionKind.KEEP: ActionForm(("table",), (), partial(propose_answer, answer="keep")),
    ActionKind.REBASE: ActionForm(("to", "table"), ("to",), propose_rebase),
    ActionKind.DISCARD: ActionForm(
        (*LETTER_PARAM_NAMES, "because"),
        ("because",),
        lambda session, because, **params: propose_discard(session, build_letter_filter(params), because),
    ),
    ActionKind.APPROVE: ActionForm(("table",), (), partial(propose_decision, verdict=DecisionKind.APPROVE)),
    ActionKind.REJECT: ActionForm(("table", "skip"), (), propose_reject),
    ActionKind.LOOK: ActionForm(("around", "table"), ("around",), propose_look),
    ActionKind.EXPLAIN: ActionForm(("key", "table"), ("key",), propose_explain),
}


def refuse_unknown_params(given: Iterable[str], known: Collection[str]) -> None:
    unknown = sorted(set(given) - set(known))
    # a program that misspells one would ask for more than it means
    if unknown:
        raise ConfigurationError(
            f"{', '.join(unknown)}: unknown parameter; there are: {', '.join(known)}; nothing was changed"
        )


ACTION_PARAM_NAMES = tuple(dict.fromkeys(name for form in FORMS.values() for name in form.params))
FORM_PARAM_NAMES = ("action", "preview", *ACTION_PARAM_NAMES, "previewed")


def propose_action(session: Session, params: Mapping[str, Any]) -> ProposedAction:
    """`params`: `action` and its parameters; empty or false ones count as missing.

    `ConfigurationError` for one that the action does not take, and for a missing one.
    """
    action: Any = params.get("action")
    try:
        kind = ActionKind(action)
    except ValueError as error:
        raise ConfigurationError(f"action={action}: unknown action; there are: {', '.join(ActionKind)}") from error
    form = FORMS[kind]
    given = {name: params[name] for name in ACTION_PARAM_NAMES if params.get(name)}
    strange = [f"{name}={value}" for name, value in given.items() if name not in form.params]
    if strange:
        raise ConfigurationError(
            f"action={kind} does not take {', '.join(strange)}; its parameters are: {', '.join(form.params)}; nothing "
            "was changed"
        )
    missing = [name for name in form.required_params if name not in given]
    if missing:
        raise ConfigurationError(
            f"action={kind}: missing parameter: {', '.join(missing)}; nothing was changed; give it"
        )
    return form.propose(session, **given)


def check_unchanged(action: ProposedAction, digest: str) -> None:
    """`GiveUp` if the action is no longer what a person was shown."""
    if digest and digest != action.digest:
        raise GiveUp(
            f"previewed={digest}: the effect has changed since the preview, so nothing was changed; "
            f"look at the preview again:\n{action.preview}"
        )


def refuse_unseen_repeat(kind: str, digest: str) -> None:
    """`GiveUp` for a cleared run without a preview: it may be done already, or mean something else by now."""
    if not digest:
        raise GiveUp(
            f"action={kind}: this run was cleared, and it names no preview; what it was started for may be "
            "done, and the same parameters may do something else by now: nothing was changed; start the DAG again with "
            "preview"
        )


def build_letter_filter(params: Mapping[str, Any]) -> LetterFilter:
    """From table, topic, reason, since and offsets, each of which may be missing."""
    since = params.get("since")
    places: frozenset[tuple[str, int, int]] = frozenset(
        parse_address(text, "offsets") for text in params.get("offsets") or ()
    )
    return LetterFilter(
        table=params.get("table") or None,
        topic=params.get("topic") or None,
        reason=params.get("reason") or None,
        since_ms=parse_timestamp_ms("since", since, f"write e.g. {EXAMPLE}") if since else None,
        places=places,
    )
