"""Puts the traits that aggregate metadata ask for on the providers of the aggregates' hosts.

``trait:X=required`` on an aggregate keeps out who does not require X (request filter
``forbidden_aggregates``); who requires it gets in only where a provider has the trait. nova puts it
nowhere: the spec leaves it to operators, or to a utility tool, which this is.

What it put on providers it keeps a record of, and takes off again once nobody asks for it. What was
there without it, it never takes off; nor what somebody put on a provider that was made anew.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby

from placement_sched.errors import NotFound, ServiceFailed
from placement_sched.model.host_map import HostMap
from placement_sched.model.sync import Changed, Code, Problem, gravest
from placement_sched.operations.sync_ports import Directory, Note, Pair, Placement, Progress
from placement_sched.operations.sync_problems import hosts_without_provider, of_changes, stopped
from placement_sched.operations.trait_plan import TraitPlan, make_plan


@dataclass(frozen=True, slots=True)
class TraitsSynced:
    """What was done, as pairs of provider uuid and trait, and what could not be.

    Of a dry run it is what would be done. ``remembers`` is false where there is no record of what
    was put, so that nothing is ever taken off.
    """

    hosts: HostMap
    created: tuple[str, ...] = ()
    put: frozenset[Pair] = frozenset()
    taken_off: frozenset[Pair] = frozenset()
    problems: tuple[Problem, ...] = ()
    remembers: bool = True
    dry_run: bool = False

    @property
    def code(self) -> Code:
        """The return code: nova-manage's where it has one for it."""
        return gravest(self.problems)


def sync_traits(
    directory: Directory,
    placement: Placement,
    *,
    aggregate: str | None = None,
    dry_run: bool = False,
    note: Note = lambda _: None,
    progress: Progress = lambda _done, _all: None,
) -> TraitsSynced:
    """Put traits where aggregates ask for them, take off what nobody asks for; tell what was done.

    With ``aggregate``, a name, only what that one asks for is put, and only what was put for it
    is taken off. A dry run changes nothing. An unknown standard trait (code 7) and a host without
    provider (4, 5, 6) do not keep the others from being synchronised. A service that fails ends it:
    with placement that is code 2, and everything done before is told; another raises
    :class:`ServiceFailed`. Raises :class:`NotFound` for an aggregate that is not there, and
    :class:`Unavailable` where the database does not answer.
    """
    hosts = directory.read()
    scope = [one for one in hosts.aggregates if aggregate in {None, one.name}]
    if aggregate is not None and not scope:
        raise NotFound(f"There is no host aggregate named {aggregate!r}.")
    _, lacking = hosts_without_provider(hosts, [one for one in scope if one.reserving_traits])
    run = _Run(placement, hosts, note, progress, problems=lacking)
    try:
        plan = make_plan(hosts, scope, placement, everything=aggregate is None)
        run.problems.extend(plan.refused)
        if dry_run:
            run.pretend(plan)
        else:
            run.carry_out(plan)
    except ServiceFailed as failure:
        run.problems.append(stopped(failure))
    return run.told(dry_run=dry_run)


@dataclass
class _Run:
    """One synchronisation under way: what has been done."""

    placement: Placement
    hosts: HostMap
    note: Note
    progress: Progress
    problems: list[Problem]
    created: list[str] = field(default_factory=list)
    put: set[Pair] = field(default_factory=set)
    taken_off: set[Pair] = field(default_factory=set)

    def pretend(self, plan: TraitPlan) -> None:
        """Take for done what is planned; what nothing can be put on is told as when it is done."""
        self.created.extend(plan.created)
        asked = {provider for provider, _ in plan.put}
        found = self.placement.existing(asked) if asked else frozenset[str]()
        self.put.update(pair for pair in plan.put if pair[0] in found)
        self.problems.extend(
            of_changes(Changed(missing=frozenset(asked - found)), self._named, "traits")
        )
        self.taken_off.update(plan.taken_off)

    def carry_out(self, plan: TraitPlan) -> None:
        """Do what is planned: what lets requests in comes before what is cleared away.

        Before all, what is not so any more leaves the record, in which the same may be noted again.
        """
        self.placement.settle(plan.outlived)
        for trait in plan.created:
            self.placement.create_trait(trait)
            self.created.append(trait)
            self.note(f"trait {trait} created")
        total, done = len(plan.put) + len(plan.taken_off), 0
        for trait, batch in _batches(plan.put, self.placement.batch):
            asking = {provider: plan.put[provider, trait] for provider in batch}
            self._keep(self.placement.put_on(trait, asking), trait, self.put, "put on")
            done += len(batch)
            self.progress(done, total)
        for trait, batch in _batches(plan.taken_off, self.placement.batch):
            self._keep(self.placement.take_off(trait, batch), trait, self.taken_off, "taken off")
            done += len(batch)
            self.progress(done, total)
        if plan.rebound:
            self.placement.remember(plan.rebound)
        if plan.forgotten:
            self.placement.forget(plan.forgotten)

    def told(self, *, dry_run: bool) -> TraitsSynced:
        """Return what was done."""
        return TraitsSynced(
            hosts=self.hosts,
            created=tuple(self.created),
            put=frozenset(self.put),
            taken_off=frozenset(self.taken_off),
            problems=tuple(sorted(set(self.problems))),
            remembers=self.placement.remembers,
            dry_run=dry_run,
        )

    def _keep(self, changed: Changed, trait: str, kept: set[Pair], done: str) -> None:
        kept.update((uuid, trait) for uuid in changed.done)
        for uuid in sorted(changed.done, key=self._named):
            self.note(f"trait {trait} {done} {self._named(uuid)} (provider {uuid})")
        problems = of_changes(changed, self._named, f"trait {trait}")
        if kept is self.taken_off:
            # A provider that is gone has lost its traits as well.
            problems = (one for one in problems if one.code is not Code.NO_PROVIDER)
        self.problems.extend(problems)

    def _named(self, provider: str) -> str:
        return self.hosts.host_of.get(provider, provider)


def _batches(
    pairs: Collection[Pair] | Mapping[Pair, str], size: int
) -> Iterator[tuple[str, list[str]]]:
    """Yield each trait with its providers, at most ``size`` at a time."""
    ordered = sorted(pairs, key=lambda pair: (pair[1], pair[0]))
    for trait, group in groupby(ordered, key=lambda pair: pair[1]):
        providers = [provider for provider, _ in group]
        for start in range(0, len(providers), size):
            yield trait, providers[start : start + size]
