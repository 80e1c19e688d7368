"""Provider summaries: the bulk of an answer, remembered except for the usages.

What a provider has (capacities, traits) is remembered as JSON for as long as its generation is the
same, since every change of it increments the generation. What does not is compared: parent and
root, and the names of resource classes, which before microversion 1.7 could be changed. Usages are
read, because deleting allocations increments nothing. Where the source describes a provider by the
very same object until anything about it changes, usages included, whole summaries are remembered
with that object. Bounded, per process, and correct beside other writers.

Nothing is remembered where a provider may get the id of a deleted one (OpenStack placement's
database on SQLite): created again, it may be equal in all that is compared, even in its times,
which have a resolution of one second. Nor is anything remembered for another history of the
database, where a generation may be that of other inventories.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from threading import Lock
from typing import Any

import orjson

from placement_sched.candidates.providers import ProviderSource
from placement_sched.db.failover import History
from placement_sched.db.sql import AT_ONCE, batches
from placement_sched.model.candidates_query import CandidateProvider

#: How many providers' fragments a process keeps (some kilobytes each), and how many whole
#: summaries: those of requests with a limit, which come often.
KEPT, KEPT_WHOLE = 100_000, 20_000
#: A generation that no provider has.
_NEVER = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryFields:
    """What a summary shows in a microversion: which classes (None: all), traits, and the tree."""

    classes: frozenset[int] | None
    traits: bool
    tree: bool


@dataclass(frozen=True, slots=True)
class _Fragment:
    """What a summary shows of a provider as long as it does not change, in pieces of JSON.

    The newest form is ``opening``, ``resources`` with their usages, ``traits`` and ``tree``.
    ``resource`` is the JSON of each class, with %d for the usage, and ``resources`` that of all
    together. ``classes`` are the ids of the resources. An opening begins with a comma.
    """

    provider: CandidateProvider
    classes: tuple[int, ...]
    opening: bytes
    resource: tuple[bytes, ...]
    resources: bytes
    traits: bytes
    tree: bytes

    def summary(self, used: Iterable[int], fields: SummaryFields) -> bytes:
        """Return the summary in an older form; ``used`` is what is used of each class."""
        resources = b",".join(
            piece % amount
            for one, piece, amount in zip(self.classes, self.resource, used, strict=True)
            if fields.classes is None or one in fields.classes
        )
        traits = self.traits if fields.traits else b"}"
        tree = self.tree if fields.tree else b"}"
        return b"".join((self.opening, resources, traits, tree))


#: A summary in the newest form, in pieces of JSON: resources, traits, and its place in the tree.
_Summary = tuple[bytes, bytes, bytes]


@dataclass(frozen=True, slots=True)
class _Memory:
    """Fragments by provider id, summaries by what they are of, and the names of classes in them.

    They were read in one ``history`` of the database. The key of a summary is the ``id()`` of the
    description, which ``described`` holds by provider id, so that no other object has it meanwhile.
    """

    history: History = None
    class_names: Mapping[int, str] = field(default_factory=dict)
    fragments: dict[int, _Fragment] = field(default_factory=dict)
    summaries: dict[int, _Summary] = field(default_factory=dict)
    described: dict[int, CandidateProvider] = field(default_factory=dict)

    def keep(self, made: Sequence[tuple[CandidateProvider, _Summary]]) -> None:
        """Keep these summaries in the place of those of earlier descriptions."""
        for provider, summary in made:
            earlier = self.described.get(provider.id)
            if earlier is not None:  # forgotten before another object may get its id()
                self.summaries.pop(id(earlier), None)
            self.described[provider.id] = provider
            self.summaries[id(provider)] = summary

    def agrees_with(self, history: History, class_names: Mapping[int, str]) -> bool:
        return self.history == history and self.class_names.items() <= class_names.items()


class Summaries:
    """Makes the ``provider_summaries`` object of an answer."""

    def __init__(self, kept: int = KEPT) -> None:
        self._most = kept
        self._memory = _Memory()
        self._lock = Lock()

    def render(
        self,
        source: ProviderSource,
        providers: Sequence[CandidateProvider],
        class_names: Mapping[int, str],
        fields: SummaryFields,
    ) -> list[bytes]:
        """Return the JSON object of summaries by provider uuid, in the order given, in pieces.

        Only the resources are filled in: looking for their places in whole summaries takes ten
        times as long.
        """
        each: Sequence[tuple[bytes, ...]]
        if fields.classes is None and fields.traits and fields.tree:
            each = self._newest(source, providers, class_names)
        else:
            fragments = self._fragments(source, providers, class_names)
            used = source.used({one.provider.id: one.classes for one in fragments})
            each = [(one.summary(used[one.provider.id], fields),) for one in fragments]
        pieces: list[bytes] = []
        for some in batches(each, AT_ONCE):
            rendered = chain.from_iterable(some)
            pieces += rendered if len(each) <= AT_ONCE else [b"".join(rendered)]
        if pieces:
            pieces[0] = pieces[0].removeprefix(b",")
        return [b"{", *pieces, b"}"]

    def _newest(
        self,
        source: ProviderSource,
        providers: Sequence[CandidateProvider],
        class_names: Mapping[int, str],
    ) -> Sequence[_Summary]:
        """Return the summaries in the newest form, making at once those not in memory."""
        memory = self._memory
        held = memory.summaries if memory.agrees_with(source.history, class_names) else {}
        # The very same: of one that is equal the usages may be others.
        found: list[Any] = list(map(held.get, map(id, providers)))
        if None not in found:
            return found
        lacking = [one for one, summary in zip(providers, found, strict=True) if summary is None]
        fragments = self._fragments(source, lacking, class_names)
        used = source.used({one.provider.id: one.classes for one in fragments})
        made: dict[int, _Summary] = {}
        for provider, one in zip(lacking, fragments, strict=True):
            resources = one.opening + one.resources % used[provider.id]
            made[id(provider)] = resources, one.traits, one.tree
        if source.describes_once and len(made) <= KEPT_WHOLE:
            lasting = [
                (provider, made[id(provider)])
                for provider, one in zip(lacking, fragments, strict=True)
                if one.provider.generation != _NEVER
            ]
            self._remember(source.history, class_names, {}, lasting)
        return [
            made[id(provider)] if summary is None else summary
            for provider, summary in zip(providers, found, strict=True)
        ]

    def _fragments(
        self,
        source: ProviderSource,
        providers: Sequence[CandidateProvider],
        class_names: Mapping[int, str],
    ) -> Sequence[_Fragment]:
        """Return a fragment of each provider, loading at once those not in memory."""
        memory = self._memory
        known = memory.fragments if memory.agrees_with(source.history, class_names) else {}
        found: dict[int, _Fragment] = {}
        missing = []
        for provider in providers:
            fragment = known.get(provider.id)
            if fragment is not None and fragment.provider == provider:
                found[provider.id] = fragment
            else:
                missing.append(provider)
        if missing:
            loaded = _load(source, missing, class_names)
            found.update(loaded)
            self._remember(source.history, class_names, loaded, ())
        return [found[provider.id] for provider in providers]

    def _remember(
        self,
        history: History,
        class_names: Mapping[int, str],
        loaded: Mapping[int, _Fragment],
        made: Sequence[tuple[CandidateProvider, _Summary]],
    ) -> None:
        with self._lock:
            memory = self._memory
            if (memory.history, memory.class_names) != (history, class_names):
                known = memory if memory.agrees_with(history, class_names) else _Memory()
                memory = replace(known, history=history, class_names=class_names)
            if len(memory.fragments) + len(loaded) > self._most:
                memory = _Memory(history, class_names)
            if len(memory.summaries) + len(made) > KEPT_WHOLE:
                memory = _Memory(history, class_names, memory.fragments)
            memory.fragments.update(loaded)
            memory.keep(made)
            self._memory = memory


def _load(
    source: ProviderSource, providers: Sequence[CandidateProvider], class_names: Mapping[int, str]
) -> dict[int, _Fragment]:
    by_id = {provider.id: provider for provider in providers}
    contents = source.contents(by_id)
    rendered = {
        key: b'},"traits":' + orjson.dumps(names) for key, names in contents.trait_sets.items()
    }
    fragments = {}
    for key, provider in by_id.items():
        capacities = contents.capacities[key]
        known = {one: amount for one, amount in capacities.items() if one in class_names}
        # A class made after the names were read is left out here, and that is not remembered.
        lasting = len(known) == len(capacities) and not contents.ids_recur
        fragments[key] = _fragment(
            provider if lasting else provider._replace(generation=_NEVER),
            {one: (class_names[one], amount) for one, amount in known.items()},
            rendered[contents.traits[key]],
        )
    return fragments


def _fragment(
    provider: CandidateProvider, capacities: Mapping[int, tuple[str, int]], traits_json: bytes
) -> _Fragment:
    parent = f'"{provider.parent_uuid}"' if provider.parent_uuid else "null"
    tree = f',"parent_provider_uuid":{parent},"root_provider_uuid":"{provider.root_uuid}"}}'
    each, together = _resources_json(tuple(capacities.values()))
    return _Fragment(
        provider=provider,
        classes=tuple(capacities),
        opening=f',"{provider.uuid}":{{"resources":{{'.encode(),
        resource=each,
        resources=together,
        traits=traits_json,
        tree=tree.encode(),
    )


@lru_cache(maxsize=10_000)  # hosts of one kind share them
def _resources_json(capacities: tuple[tuple[str, int], ...]) -> tuple[tuple[bytes, ...], bytes]:
    each = tuple(
        orjson.dumps(name).replace(b"%", b"%%") + b':{"capacity":%d,"used":%%d}' % capacity
        for name, capacity in capacities
    )
    return each, b",".join(each)
