"""Says in one sentence what keeps hosts from a request: its constraints, aggregates and filters.

``... would fit without VCPU:400, but its nova-compute last reported 93 s ago``: a constraint that
may be dropped comes after ``without``, what is so of the hosts comes after ``but``.
"""

from collections.abc import Callable, Iterator, Sequence

import os_traits

from placement_sched.model.names import listed
from placement_sched.model.verdict import Refusal

#: The name of a constraint of the search: its kind and detail.
Term = tuple[str, str]
_DISABLED = ("root_required", f"!{os_traits.COMPUTE_STATUS_DISABLED}")


def would_fit_but(
    terms: Sequence[Term],
    refusals: Sequence[tuple[str, Refusal]],
    name: Callable[[str], str],
    *,
    several: bool,
) -> str:
    """Return what follows the hosts: that they would fit without these terms and refusals.

    ``refusals`` are by the name of the stage, those of one host; with ``several`` others have the
    same clauses. ``name`` gives an aggregate of a uuid its name.
    """
    without = [one for one in map(_without, terms) if one]
    clauses = [one for term in terms for one in _of_hosts(term, name, several=several)]
    clauses += [clause_of(*one, several=several) for one in refusals]
    words = f"would fit without {listed(without)}" if without else "would fit"
    return f"{words}, but {listed(clauses)}" if clauses else words


def traits_named(names: Sequence[str]) -> str:
    """Return traits as a sentence names them: ``trait A``, ``traits A and B``."""
    return f"trait{'s' * (len(names) > 1)} {listed(names)}"


def clause_of(stage: str, refusal: Refusal, *, several: bool) -> str:
    """Return what one stage finds of a host, or of several."""
    if several:
        return refusal.of_several or f"{stage} rejects them"
    return refusal.of_one or f"{stage} rejects it: {refusal.reason}"


def _without(term: Term) -> str:
    """Return how a constraint is named that the request may do without; empty for one of hosts."""
    (kind, detail), group = term, ""
    if kind in {"member_of", "in_tree"} or term == _DISABLED:
        return ""
    if detail.endswith(")"):
        detail, _, group = detail.partition(" (")
        group = f" ({group}"
    if kind == "resources":
        return f"{detail}{group}"
    if kind in {"required", "root_required"}:
        if detail.startswith("!"):
            return f"forbidding trait {detail.removeprefix('!')}{group}"
        return f"trait {' or '.join(detail.removeprefix('in:').split(','))}{group}"
    return f"{kind}={'isolate' if kind == 'group_policy' else detail}{group}"


def _of_hosts(term: Term, name: Callable[[str], str], *, several: bool) -> Iterator[str]:
    """Yield what a constraint says of the hosts that do not meet it, where it is about them."""
    kind, detail = term
    their, are = ("their", "are") if several else ("its", "is")
    if term == _DISABLED:
        yield f"{their} nova-compute is disabled"
    elif kind == "in_tree":
        yield "the request names another host"
    elif kind == "member_of":
        uuids, _, group = detail.partition(" ")
        named = [name(uuid) for uuid in uuids.removeprefix("!").removeprefix("in:").split(",")]
        place = f"{are} in" if uuids.startswith("!") else f"{are} not in"
        yield f"{place} {' or '.join(named)} {group}".rstrip()
