"""Which virtual CPUs are pinned, and under which policies: all that is said of CPUs, checked.

Source: nova's documentation, "CPU topologies" and "Real Time".
"""

from dataclasses import dataclass

from placement_sched.errors import Invalid
from placement_sched.model.flavor import Flavor
from placement_sched.model.image import Image
from placement_sched.scheduler.hardware.both import of_flavor, of_image, place
from placement_sched.scheduler.hardware.cpu_resources import (
    resulting_cpu_policy,
    resulting_thread_policy,
)
from placement_sched.scheduler.hardware.cpu_set import all_cpus
from placement_sched.scheduler.hardware.cpus import (
    DEDICATED,
    ISOLATE,
    MIXED,
    dedicated_cpus,
    emulator_threads_policy,
    realtime_cpus,
)

_MASK, _REALTIME = of_flavor("cpu_dedicated_mask"), of_flavor("cpu_realtime")
_POLICY = f"{of_flavor('cpu_policy')} or {of_image('cpu_policy')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinning:
    """The CPUs that are pinned, and the policies that say so; None where none is said."""

    cpu_policy: str | None
    thread_policy: str | None
    emulator_threads: str | None
    pinned: frozenset[int]

    @property
    def is_asked(self) -> bool:
        """Return whether any CPU is to be pinned."""
        return self.cpu_policy in (DEDICATED, MIXED)


def pinning_of(flavor: Flavor, image: Image) -> Pinning:
    """Return what flavor and image say of CPUs.

    Raises :class:`Invalid` for policies and masks that cannot be, or that do not go together.
    """
    policy = resulting_cpu_policy(flavor, image)
    threads = resulting_thread_policy(flavor, image)
    emulator = emulator_threads_policy(flavor)
    masked, realtime = dedicated_cpus(flavor), realtime_cpus(flavor, image)
    if policy not in (DEDICATED, MIXED):
        _check_unpinned(flavor, image, threads, emulator)
    if masked and policy != MIXED:
        raise Invalid(f"{_MASK} needs the policy 'mixed' in {_POLICY}")
    if realtime and policy not in (DEDICATED, MIXED):
        raise Invalid(f"{_REALTIME} needs the policy 'dedicated' or 'mixed' in {_POLICY}")
    if policy == MIXED and bool(masked) == bool(realtime):
        where = place(flavor, image, "cpu_policy")
        raise Invalid(f"{where} says 'mixed', which needs either {_MASK} or {_REALTIME}")
    pinned = masked or realtime if policy == MIXED else None
    return Pinning(
        cpu_policy=policy,
        thread_policy=threads,
        emulator_threads=emulator,
        pinned=all_cpus(flavor) if policy == DEDICATED else pinned or frozenset(),
    )


def _check_unpinned(
    flavor: Flavor, image: Image, threads: str | None, emulator: str | None
) -> None:
    """Raise :class:`Invalid` for what makes sense for pinned CPUs only."""
    if threads:
        where = place(flavor, image, "cpu_thread_policy")
        raise Invalid(f"{where}, or the trait for it, needs pinned CPUs: say so in {_POLICY}")
    if emulator == ISOLATE:
        where = of_flavor("emulator_threads_policy")
        raise Invalid(f"{where} says 'isolate', which needs pinned CPUs: say so in {_POLICY}")
