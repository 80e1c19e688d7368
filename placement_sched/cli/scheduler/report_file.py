"""Writes reports (``--html FILE``): whole, or not at all."""

import os
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from placement_sched.console.reports import Heading
from placement_sched.errors import Invalid
from placement_sched.model.clock import utcnow

_READABLE = 0o666


def headed(title: str, place: str, *facts: tuple[str, str]) -> Heading:
    """Return the heading of a report that is made now, of what ``place`` answered."""
    return Heading(title=title, place=place, made=utcnow(), facts=facts)


def write(file: Path, report: str) -> None:
    """Write a report; what was in the file before is replaced.

    Raises :class:`Invalid` where that cannot be, and leaves the file as it was.
    """
    made = None
    try:
        with NamedTemporaryFile("w", encoding="utf-8", dir=file.parent, delete=False) as made:
            made.write(report)
        mask = os.umask(0)
        os.umask(mask)
        Path(made.name).chmod(_READABLE & ~mask)
        Path(made.name).replace(file)
    except OSError as failure:
        if made is not None:
            with suppress(OSError):
                Path(made.name).unlink()
        raise Invalid(f"--html {file}: {failure.strerror}") from None
