"""``placement audit --invariants``: verify what must always hold."""

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from placement_sched.cli.arguments import ALL_RECORDED
from placement_sched.cli.database import configured
from placement_sched.cli.terminal import print_result, waiting
from placement_sched.errors import Invalid
from placement_sched.model.clock import utcnow
from placement_sched.model.results.invariants import EarlierKnown, Verified, Violation
from placement_sched.operations.invariants import known
from placement_sched.operations.invariants.verify import MOST, verify

T = TypeVar("T")

#: The files that are read and written, by option.
_FILES = ("snapshot", "since", "acknowledged")


def add_files(parser: argparse.ArgumentParser) -> None:
    """Add the options for what one snapshot of a database cannot show."""
    parser.add_argument(
        "--snapshot",
        metavar="FILE",
        help="with --invariants: write the generations of all providers and consumers to this file",
    )
    parser.add_argument(
        "--since",
        metavar="FILE",
        help="with --invariants: verify that no generation is lower than in this file, which "
        "--snapshot wrote earlier",
    )
    parser.add_argument(
        "--acknowledged",
        metavar="FILE",
        help="with --invariants: verify that each consumer holds what clients were answered; each "
        "line is a write, in their order: "
        '{"consumer": UUID, "allocations": {UUID: {"resources": {NAME: AMOUNT}}}}, where {} is '
        'none, with "answered": false for a write without an answer',
    )


def refuse_files(arguments: argparse.Namespace) -> None:
    """Raise :class:`Invalid` where one of these options is given without ``--invariants``."""
    for name in _FILES:
        if getattr(arguments, name) is not None:
            raise Invalid(f"--{name} needs --invariants")


def verified(arguments: argparse.Namespace) -> bool:
    """Print what is violated in the configured database; return whether all invariants hold.

    Raises :class:`Invalid` for options of an audit that have no meaning here, and for files that
    cannot be read or written.
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
    earlier = EarlierKnown(
        _read(arguments.since, known.read_generations),
        _read(arguments.acknowledged, known.read_acknowledged),
    )
    keep = arguments.snapshot is not None
    with configured(arguments, there=True) as (settings, database), waiting("verifying"):
        found = verify(database, settings, earlier, keep_generations=keep)
    if keep and found.generations is not None:
        _write(arguments.snapshot, known.generation_lines(found.generations, utcnow()))
    print_result(arguments, _document(found), _lines(found, verbose=arguments.verbose))
    return not found.violations


def _read(file: str | None, read: Callable[[str, Iterable[bytes]], T]) -> T | None:
    """Return what a file holds, or None where none is named."""
    if file is None:
        return None
    try:
        with Path(file).open("rb") as lines:
            return read(file, lines)
    except OSError as failure:
        raise Invalid(f"{file}: {failure.strerror}") from None


def _write(file: str, lines: Iterable[bytes]) -> None:
    try:
        with Path(file).open("wb") as target:
            target.writelines(lines)
    except OSError as failure:
        raise Invalid(f"{file}: {failure.strerror}") from None


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
