"""What the commands that synchronise placement with host aggregates tell, and with which code."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum


class Code(IntEnum):
    """How it ended: nova-manage's return codes (nova's guide, "nova-manage placement").

    The last two are of ``sync_traits`` alone, which nova has not.
    """

    DONE = 0
    SEVERAL_NODES = 1
    PLACEMENT_FAILED = 2
    UPDATE_FAILED = 3
    HOST_UNKNOWN = 4
    NO_NODE = 5
    NO_PROVIDER = 6
    TRAIT_REFUSED = 7
    AGGREGATE_UNKNOWN = 8


#: Of several, which one is the exit status: what stops everything, then what an operator must
#: decide, then what is missing.
_GRAVEST_FIRST = (
    Code.PLACEMENT_FAILED,
    Code.SEVERAL_NODES,
    Code.UPDATE_FAILED,
    Code.TRAIT_REFUSED,
    Code.AGGREGATE_UNKNOWN,
    Code.NO_PROVIDER,
    Code.NO_NODE,
    Code.HOST_UNKNOWN,
)


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """Something that kept a host or a trait from being synchronised."""

    code: Code
    about: str
    detail: str


@dataclass(frozen=True, slots=True)
class Changed:
    """What became of asked changes, by provider uuid.

    ``done`` were changed; ``missing`` are no providers (any more); ``failed`` could not be
    changed, for a reason. Of the others nothing was to change any more.
    """

    done: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()
    failed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TraitRecord:
    """What ``sync_traits`` has put where: pairs of provider uuid and trait.

    ``pairs`` tell the uuid of the aggregate for which. ``outlived`` are those whose provider is
    gone: another that was made under its uuid has nothing of it.
    """

    pairs: Mapping[tuple[str, str], str] = field(default_factory=dict)
    outlived: frozenset[tuple[str, str]] = frozenset()


def gravest(problems: Iterable[Problem]) -> Code:
    """Return the code that several problems are told with; :attr:`Code.DONE` for none."""
    found = {problem.code for problem in problems}
    return next((code for code in _GRAVEST_FIRST if code in found), Code.DONE)
