"""``placement audit --invariants``: verify what must always hold."""

import argparse
from collections.abc import Iterator, Sequence

from placement_sched.cli.arguments import ALL_RECORDED
from placement_sched.cli.database import configured
from placement_sched.cli.terminal import print_result, waiting
from placement_sched.errors import Invalid
from placement_sched.model.checks import Verified, Violation
from placement_sched.operations.invariants import MOST, verify


def verified(arguments: argparse.Namespace) -> bool:
    """Print what is violated in the configured database; return whether all invariants hold.

    Raises :class:`Invalid` for options of an audit that have no meaning here.
    """
    options = {
        "--delete": arguments.delete,
        "--resource_provider": arguments.resource_provider is not None,
        "--consumer": bool(arguments.consumer),
        ALL_RECORDED: arguments.instances_are_all_recorded,
    }
    for option, given in options.items():
        if given:
            raise Invalid(f"--invariants and {option} exclude each other")
    with configured(arguments, there=True) as (_, database), waiting("verifying"):
        found = verify(database)
    print_result(arguments, _document(found), _lines(found, verbose=arguments.verbose))
    return not found.violations


def _document(found: Verified) -> dict[str, object]:
    return {
        "code": 7 if found.violations else 0,
        "checked": dict(found.checked),
        "violations": _listed(found.violations),
        "allowed": _listed(found.allowed),
        "more_of": sorted(found.cut),
    }


def _listed(some: Sequence[Violation]) -> list[dict[str, str]]:
    return [{"invariant": one.invariant.value, "detail": one.detail} for one in some]


def _lines(found: Verified, *, verbose: bool) -> Iterator[str]:
    if verbose:
        counts = (f"{number} {name}" for name, number in found.checked.items())
        yield f"checked in one snapshot: {', '.join(counts)}"
    for one in found.violations:
        yield f"{one.invariant}: {one.detail}"
    for one in found.allowed:
        yield f"allowed: {one.invariant}: {one.detail}"
    for invariant in sorted(found.cut):
        yield f"{invariant}: there are more; the first {MOST} are named"
    if not found.violations:
        yield "all invariants hold"
        return
    number = len(found.violations)
    plus = "+" * bool(found.cut)
    kinds = len({one.invariant for one in found.violations})
    yield f"{number}{plus} violation{'s'[: number != 1]} of {kinds} invariant{'s'[: kinds != 1]}"
