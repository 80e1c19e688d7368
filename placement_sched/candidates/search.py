# SPDX-License-Identifier: Apache-2.0
"""Allocation candidate search.

names -> constraints -> single providers, or trees -> combinations -> allocation requests

A request with a single group, in a cloud without nested and sharing providers, needs no
combinations: each provider that meets the constraints is a candidate. For any other request,
providers are combined within each tree, once for all trees of the same shape.
:func:`render_summaries` renders provider summaries, which the scheduler does not need.
:mod:`placement_sched.explain.report` reports the trees that each constraint removed.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain, repeat
from random import Random

import orjson

from placement_sched.candidates.batches import CandidateBatches
from placement_sched.candidates.combine import WorkBudget
from placement_sched.candidates.providers import ProviderSource
from placement_sched.candidates.request import Search, Slot
from placement_sched.candidates.trees import TreeReader
from placement_sched.config.settings import Settings
from placement_sched.errors import TooComplex
from placement_sched.model.candidates_query import (
    AllocationRequest,
    CandidateProvider,
    Candidates,
    CandidatesQuery,
    Layout,
    RenderedSummary,
)
from placement_sched.model.constraint import LimitingOption


def prepare(source: ProviderSource, query: CandidatesQuery) -> Search:
    """Resolve the names of a query.

    Raises :class:`UnknownResourceClassOrTrait` for an unknown class or trait.
    """
    return Search(query, source.resolve(query))


def find(
    source: ProviderSource,
    search: Search,
    settings: Settings,
    random: Random,
    *,
    single_per_tree: bool = False,
) -> Candidates:
    """Find candidates: the first by provider id, or a random sample.

    ``single_per_tree`` excludes candidates with several providers of a tree, which clients before
    microversion 1.29 do not understand. Raises :class:`TooComplex` if ``[placement]
    allocation_candidates_budget`` or ``max_member_of`` is exceeded.
    """
    search = replace(search, single_per_tree=single_per_tree)
    _check_memberships(search, settings)
    limit = compute_effective_limit(search.query.limit, settings)
    sampling = random if settings.placement.randomize_allocation_candidates else None
    if search.is_single_provider:
        if sampling is None:
            providers = source.find_single_providers(search.query, search.names, limit)
        else:
            providers = source.sample_single_providers(search.query, search.names, limit, sampling)
        return _build_single_candidates(search, providers, limit=limit)
    in_turn = settings.placement.allocation_candidates_generation_strategy == "breadth-first"
    reader = _build_reader(source, search, settings)
    return _find_in_trees(reader, limit, in_turn=in_turn, random=sampling)


def find_on(
    source: ProviderSource, search: Search, settings: Settings, roots: Collection[str]
) -> Candidates:
    """Find the candidates on the trees of these roots.

    The limit of the query is ignored. A search that combines providers still finds at most
    ``[scheduler] max_placement_results`` candidates.
    """
    if search.is_single_provider:
        serving = source.select_serving(search.query, search.names, source.map_ids(roots).values())
        return _build_single_candidates(search, serving, limit=None)
    root_ids = sorted(source.map_ids(roots).values())
    limit = settings.scheduler.max_placement_results
    return _find_in_trees(_build_reader(source, search, settings), limit, root_ids=root_ids)


def _build_reader(source: ProviderSource, search: Search, settings: Settings) -> TreeReader:
    steps = settings.placement.allocation_candidates_budget
    budget = WorkBudget(steps, settings.placement_database.read_timeout)
    return TreeReader(source, search, budget)


def _check_memberships(search: Search, settings: Settings) -> None:
    groups = (
        search.query.groups if search.is_single_provider else [slot.group for slot in search.slots]
    )
    number = sum(len(group.aggregates.member_of) for group in groups)
    limit = settings.placement.max_member_of
    if number > limit:
        raise TooComplex(
            f"The request has {number} sets of aggregates, and [placement] max_member_of allows "
            f"{limit}. A member_of without suffix counts once for each resource class of its group."
        )


def compute_effective_limit(requested: int | None, settings: Settings) -> int | None:
    """Return the smaller limit of caller and operator (None: no limit)."""
    bound = settings.placement.max_allocation_candidates
    limits = [limit for limit in (requested, bound) if limit is not None and limit >= 0]
    return min(limits, default=None)


def find_limiting_option(requested: int | None, settings: Settings) -> LimitingOption:
    """Return the option that limits a query with the limit ``requested``."""
    group, name = "scheduler", "max_placement_results"
    if requested is None or 0 <= settings.placement.max_allocation_candidates < requested:
        group, name = "placement", "max_allocation_candidates"
    return LimitingOption(f"[{group}] {name}", settings.find_override_source(group, name))


def _build_single_candidates(
    search: Search, providers: tuple[CandidateProvider, ...], *, limit: int | None
) -> Candidates:
    (group,) = search.query.groups
    layout = Layout(amounts=(dict(group.resources),), mappings={group.suffix: (0,)})
    uuids, roots = zip([item.uuid for item in providers]), [item.root_uuid for item in providers]
    return Candidates(
        requests=tuple(map(AllocationRequest._make, zip(repeat(layout), uuids, roots))),
        providers=providers,
        limited=limit is not None and len(providers) >= limit,
    )


def _find_in_trees(
    reader: TreeReader,
    limit: int | None,
    *,
    in_turn: bool = False,
    random: Random | None = None,
    root_ids: Sequence[int] | None = None,
) -> Candidates:
    search = reader.search
    batches = CandidateBatches(
        reader=reader,
        # Many candidates share a layout.
        build_layout=cache(partial(_build_layout, search.slots, search.names.class_names)),
        limit=limit,
        in_turn=in_turn,
        random=random,
        root_ids=root_ids,
    )
    batches.run()
    return Candidates(
        requests=tuple(batches.requests),
        providers=reader.source.list_providers(batches.provider_ids),
        limited=batches.missing_count == 0,
    )


def _build_layout(
    slots: Sequence[Slot], class_names: Mapping[int, str], firsts: tuple[int, ...]
) -> Layout:
    """Build the layout of a combination.

    ``firsts[i]`` is the first slot that has the same provider as slot ``i``.
    """
    places = {first: place for place, first in enumerate(dict.fromkeys(firsts))}
    amounts: tuple[dict[str, int], ...] = tuple({} for _ in places)
    mappings: dict[str, dict[int, None]] = defaultdict(dict)
    for slot, first in zip(slots, firsts, strict=True):
        place = places[first]
        mappings[slot.suffix][place] = None
        for class_id, amount in slot.amounts:
            name = class_names[class_id]
            amounts[place][name] = amounts[place].get(name, 0) + amount
    return Layout(amounts, {suffix: tuple(indexes) for suffix, indexes in mappings.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryFields:
    """Parts of provider summaries by microversion (``classes`` None: all)."""

    classes: frozenset[str] | None = None
    traits: bool = True
    tree: bool = True


_NEWEST = SummaryFields()


def render_summaries(
    source: ProviderSource, providers: Sequence[CandidateProvider], fields: SummaryFields = _NEWEST
) -> list[bytes]:
    """Render a JSON object of summaries by provider uuid.

    The joined pieces are the object. The summaries have the order of ``providers``.
    """
    if fields != _NEWEST:
        summaries = _render(source, providers, fields)
    else:
        missing = [provider for provider in providers if provider.summary is None]
        for provider, summary in zip(missing, _render(source, missing, fields), strict=True):
            provider.summary = summary
        summaries = [provider.summary for provider in providers if provider.summary]
    pieces = list(chain.from_iterable(summaries))
    if pieces:
        pieces[0] = pieces[0].removeprefix(b",")
    return [b"{", *pieces, b"}"]


def _render(
    source: ProviderSource, providers: Sequence[CandidateProvider], fields: SummaryFields
) -> list[RenderedSummary]:
    if not providers:
        return []
    contents = source.read_contents([provider.id for provider in providers])
    # Providers with equal traits share their JSON.
    traits = {
        key: b',"traits":' + orjson.dumps(names) for key, names in contents.trait_sets.items()
    }
    names = {name for amounts in contents.amounts.values() for name, _, _ in amounts}
    labels = {name: orjson.dumps(name) for name in names}
    summaries = []
    for provider in providers:
        resources = b",".join(
            [
                b'%b:{"capacity":%d,"used":%d}' % (labels[name], capacity, used)
                for name, capacity, used in contents.amounts[provider.id]
                if fields.classes is None or name in fields.classes
            ]
        )
        opening = b',"%b":{"resources":{%b}' % (provider.uuid.encode(), resources)
        parent = f'"{provider.parent_uuid}"' if provider.parent_uuid else "null"
        tree = f',"parent_provider_uuid":{parent},"root_provider_uuid":"{provider.root_uuid}"}}'
        summaries.append(
            (
                opening,
                traits[contents.traits[provider.id]] if fields.traits else b"",
                tree.encode() if fields.tree else b"}",
            )
        )
    return summaries
