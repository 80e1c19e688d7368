# SPDX-License-Identifier: Apache-2.0
"""Provider summaries of a response, as JSON.

The summary in the newest microversion is kept with the provider's description. The provider cache
describes a provider again when anything about it changes, including used amounts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import orjson

from placement_sched.candidates.providers import ProviderSource
from placement_sched.model.candidates_query import CandidateProvider, RenderedSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryFields:
    """The fields of a summary in a microversion: resource classes (None: all), traits, tree."""

    classes: frozenset[str] | None = None
    traits: bool = True
    tree: bool = True


_NEWEST = SummaryFields()


def render_summaries(
    source: ProviderSource, providers: Sequence[CandidateProvider], fields: SummaryFields = _NEWEST
) -> list[bytes]:
    """Return the JSON object of summaries by provider uuid, in order, in pieces."""
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
    contents = source.contents([provider.id for provider in providers])
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
