# SPDX-License-Identifier: Apache-2.0
"""Provider summaries, rendered to JSON and cached except for the usages.

Capacities and traits of a provider are cached as JSON as long as its generation is the same, since
every change of them increments it. Values whose change does not increment the generation are
compared: parent and root, and the names of resource classes, which can be changed before
microversion 1.7. Usages are read each time, because deleting allocations does not increment the
generation. If the source describes a provider by the same object until anything about it changes,
usages included, whole summaries are cached with that object. The cache is bounded, belongs to the
process, and is correct alongside other writers.

Nothing is cached if ids can be reused (OpenStack placement's database on SQLite): a recreated
provider can be equal in all compared values, even in its times, which have a resolution of one
second. The cache is also dropped when the history of the database changes, because a generation may
then belong to other inventories.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from threading import Lock
from typing import Any

import orjson

from placement_sched.candidates.providers import ProviderSource
from placement_sched.db.failover import ServerEpoch
from placement_sched.db.sql import AT_ONCE, batches
from placement_sched.model.candidates_query import CandidateProvider

#: Maximum number of cached fragments of a process (a few kilobytes each), and of whole summaries,
#: which serve frequent requests with a limit.
KEPT, KEPT_WHOLE = 100_000, 20_000
#: A generation that no provider has.
_NEVER = -1
#: A summary in the newest form, in pieces of JSON: resources, traits, and its place in the tree.
_Summary = tuple[bytes, bytes, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryFields:
    """The fields of a summary in a microversion: resource classes (None: all), traits, tree."""

    classes: frozenset[int] | None
    traits: bool
    tree: bool


@dataclass(frozen=True, slots=True)
class _Fragment:
    """A provider's summary without the usages, in pieces of JSON.

    ``opening``, ``resources``, ``traits`` and ``tree`` joined are the summary in the newest
    microversion. ``classes`` are the class ids. ``resource`` has the JSON of each class, with %d in
    place of the usage, and ``resources`` is the JSON of all classes. ``opening`` begins with the
    comma that separates summaries.
    """

    provider: CandidateProvider
    classes: tuple[int, ...]
    opening: bytes
    resource: tuple[bytes, ...]
    resources: bytes
    traits: bytes
    tree: bytes

    def summary(self, used: Iterable[int], fields: SummaryFields) -> bytes:
        resources = b",".join(
            piece % amount
            for class_id, piece, amount in zip(self.classes, self.resource, used, strict=True)
            if fields.classes is None or class_id in fields.classes
        )
        traits = self.traits if fields.traits else b"}"
        tree = self.tree if fields.tree else b"}"
        return b"".join((self.opening, resources, traits, tree))


@dataclass(frozen=True, slots=True)
class _SummaryCache:
    """Cached fragments by provider id, and whole summaries by provider description.

    All are from the same ``history`` of the database, and use the class names in ``class_names``.
    The key of a summary is the ``id()`` of the description. ``described`` references the
    descriptions, so that no other object can get the same ``id()``.
    """

    history: ServerEpoch = None
    class_names: Mapping[int, str] = field(default_factory=dict)
    fragments: dict[int, _Fragment] = field(default_factory=dict)
    summaries: dict[int, _Summary] = field(default_factory=dict)
    described: dict[int, CandidateProvider] = field(default_factory=dict)

    def keep(self, summaries: Sequence[tuple[CandidateProvider, _Summary]]) -> None:
        for provider, summary in summaries:
            earlier = self.described.get(provider.id)
            if earlier is not None:  # before another object can get its id()
                self.summaries.pop(id(earlier), None)
            self.described[provider.id] = provider
            self.summaries[id(provider)] = summary

    def agrees_with(self, history: ServerEpoch, class_names: Mapping[int, str]) -> bool:
        return self.history == history and self.class_names.items() <= class_names.items()


class Summaries:
    """Renderer of the ``provider_summaries`` object of a response."""

    def __init__(self, kept: int = KEPT) -> None:
        self._max_fragments = kept
        self._cache = _SummaryCache()
        self._lock = Lock()

    def render(
        self,
        source: ProviderSource,
        providers: Sequence[CandidateProvider],
        class_names: Mapping[int, str],
        fields: SummaryFields,
    ) -> list[bytes]:
        """Return the JSON object of summaries by provider uuid, in order, in pieces.

        Only usages are filled into cached JSON, which is ten times faster than searching whole
        summaries for them.
        """
        summaries: Sequence[tuple[bytes, ...]]
        if fields.classes is None and fields.traits and fields.tree:
            summaries = self._render_newest(source, providers, class_names)
        else:
            fragments = self._get_fragments(source, providers, class_names)
            used = source.used({item.provider.id: item.classes for item in fragments})
            summaries = [(item.summary(used[item.provider.id], fields),) for item in fragments]
        pieces: list[bytes] = []
        for batch in batches(summaries, AT_ONCE):
            rendered = chain.from_iterable(batch)
            pieces += rendered if len(summaries) <= AT_ONCE else [b"".join(rendered)]
        if pieces:
            pieces[0] = pieces[0].removeprefix(b",")
        return [b"{", *pieces, b"}"]

    def _render_newest(
        self,
        source: ProviderSource,
        providers: Sequence[CandidateProvider],
        class_names: Mapping[int, str],
    ) -> Sequence[_Summary]:
        cache = self._cache
        cached = cache.summaries if cache.agrees_with(source.history, class_names) else {}
        # By identity, because an equal description may have other usages.
        summaries: list[Any] = list(map(cached.get, map(id, providers)))
        if None not in summaries:
            return summaries
        missing = [
            key for key, summary in zip(providers, summaries, strict=True) if summary is None
        ]
        fragments = self._get_fragments(source, missing, class_names)
        used = source.used({item.provider.id: item.classes for item in fragments})
        rendered: dict[int, _Summary] = {}
        for provider, fragment in zip(missing, fragments, strict=True):
            resources = fragment.opening + fragment.resources % used[provider.id]
            rendered[id(provider)] = resources, fragment.traits, fragment.tree
        if source.describes_once and len(rendered) <= KEPT_WHOLE:
            cacheable = [
                (provider, rendered[id(provider)])
                for provider, fragment in zip(missing, fragments, strict=True)
                if fragment.provider.generation != _NEVER
            ]
            self._update_cache(source.history, class_names, {}, cacheable)
        return [
            rendered[id(provider)] if summary is None else summary
            for provider, summary in zip(providers, summaries, strict=True)
        ]

    def _get_fragments(
        self,
        source: ProviderSource,
        providers: Sequence[CandidateProvider],
        class_names: Mapping[int, str],
    ) -> Sequence[_Fragment]:
        cache = self._cache
        cached = cache.fragments if cache.agrees_with(source.history, class_names) else {}
        fragments: dict[int, _Fragment] = {}
        missing = []
        for provider in providers:
            fragment = cached.get(provider.id)
            if fragment is not None and fragment.provider == provider:
                fragments[provider.id] = fragment
            else:
                missing.append(provider)
        if missing:
            loaded = _load_fragments(source, missing, class_names)
            fragments.update(loaded)
            self._update_cache(source.history, class_names, loaded, ())
        return [fragments[provider.id] for provider in providers]

    def _update_cache(
        self,
        history: ServerEpoch,
        class_names: Mapping[int, str],
        loaded: Mapping[int, _Fragment],
        rendered: Sequence[tuple[CandidateProvider, _Summary]],
    ) -> None:
        with self._lock:
            cache = self._cache
            if (cache.history, cache.class_names) != (history, class_names):
                base = cache if cache.agrees_with(history, class_names) else _SummaryCache()
                cache = replace(base, history=history, class_names=class_names)
            if len(cache.fragments) + len(loaded) > self._max_fragments:
                cache = _SummaryCache(history, class_names)
            if len(cache.summaries) + len(rendered) > KEPT_WHOLE:
                cache = _SummaryCache(history, class_names, cache.fragments)
            cache.fragments.update(loaded)
            cache.keep(rendered)
            self._cache = cache


def _load_fragments(
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
        amounts = {
            class_id: amount for class_id, amount in capacities.items() if class_id in class_names
        }
        # Without a class that was created after the names were read, the fragment is not cached.
        is_cacheable = len(amounts) == len(capacities) and not contents.ids_recur
        fragments[key] = _build_fragment(
            provider if is_cacheable else provider._replace(generation=_NEVER),
            {class_id: (class_names[class_id], amount) for class_id, amount in amounts.items()},
            rendered[contents.traits[key]],
        )
    return fragments


def _build_fragment(
    provider: CandidateProvider, capacities: Mapping[int, tuple[str, int]], traits_json: bytes
) -> _Fragment:
    parent = f'"{provider.parent_uuid}"' if provider.parent_uuid else "null"
    tree = f',"parent_provider_uuid":{parent},"root_provider_uuid":"{provider.root_uuid}"}}'
    resource, resources = _render_resources(tuple(capacities.values()))
    return _Fragment(
        provider=provider,
        classes=tuple(capacities),
        opening=f',"{provider.uuid}":{{"resources":{{'.encode(),
        resource=resource,
        resources=resources,
        traits=traits_json,
        tree=tree.encode(),
    )


@lru_cache(maxsize=10_000)  # hosts of the same hardware share them
def _render_resources(capacities: tuple[tuple[str, int], ...]) -> tuple[tuple[bytes, ...], bytes]:
    parts = tuple(
        orjson.dumps(name).replace(b"%", b"%%") + b':{"capacity":%d,"used":%%d}' % capacity
        for name, capacity in capacities
    )
    return parts, b",".join(parts)
