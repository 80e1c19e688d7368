# SPDX-License-Identifier: Apache-2.0
"""Differences in candidates, mostly defects of the peer that a naive search proves."""

from dataclasses import replace
from functools import partial
from urllib.parse import parse_qsl, urlencode

from placement_sched.model.candidates_query import CandidatesQuery
from tests.candidates.reference import SHARING_TRAIT
from tests.differential.comparison import Explanations, add_explanation
from tests.differential.differences import Differences, sort_keys_and_lists
from tests.differential.exchange import Request
from tests.differential.explained.response_pair import ResponsePair
from tests.differential.oracle import (
    Candidate,
    Candidates,
    find_candidates_served_by,
    find_expected_candidates,
    parse_candidates,
    parse_candidates_query,
)

CANDIDATES_EXPLANATIONS: Explanations = {}
register_explanation = partial(add_explanation, CANDIDATES_EXPLANATIONS)


@register_explanation("a limit may keep other candidates")
def _peer_chooses_other_candidates_within_limit(
    pair: ResponsePair, differences: Differences
) -> set[str]:
    if (
        not _are_both_answered_and_ours_valid(pair)
        or parse_candidates_query(pair.request).limit is None
        or not pair.has_expected_candidates(pair.theirs)
    ):
        return set()
    document = sort_keys_and_lists(pair.theirs.document)["provider_summaries"]
    needed = pair.list_summaries_of(parse_candidates(pair.theirs.document))
    every = pair.list_summaries_of(pair.expected_candidates)
    return {"body"} if needed.items() <= document.items() <= every.items() else set()


def _are_both_answered_and_ours_valid(pair: ResponsePair) -> bool:
    return pair.is_our_response_valid and pair.theirs.status == 200


@register_explanation("amounts of different candidates are not added")
def _peer_adds_amounts(pair: ResponsePair, differences: Differences) -> set[str]:
    """Detect candidates of the peer with wrong amounts of shared classes.

    The peer may also lose all candidates, because the added amounts exceed the capacity. It finds
    them with the policy ``none``, which does not add amounts.
    """
    query = (
        parse_candidates_query(pair.request) if _are_both_answered_and_ours_valid(pair) else None
    )
    # Our service ignores an invalid policy before a valid policy. The peer then adds the amounts of
    # any two groups.
    policies = [value for key, value in parse_qsl(pair.request.query) if key == "group_policy"]
    odd = bool(policies) and policies[0] not in {"none", "isolate"}
    shared = _find_classes_in_two_groups(query, by_any=odd) if query else set()
    if not shared or policies[:1] == ["none"]:
        return set()
    anywhere = _find_candidates_as_peer_reads_query(pair)
    known = {_clear_amounts_of_classes(candidate, shared) for candidate in anywhere}
    wrong = parse_candidates(pair.theirs.document) - anywhere
    if wrong:
        plain = {_clear_amounts_of_classes(candidate, shared) for candidate in wrong}
        return {"body"} if plain <= known else set()
    with_none = pair.their_side.send_request(
        _replace_query_terms(pair.request, group_policy="none", limit=None)
    )
    if with_none.status != 200:
        return set()
    lost = anywhere - parse_candidates(with_none.document)
    return {"body"} if lost <= _find_candidates_of_sharing_providers(pair) else set()


def _find_classes_in_two_groups(query: CandidatesQuery, *, by_any: bool) -> set[str]:
    if by_any:
        classes = [name for group in query.groups for name, _ in group.resources]
        return {name for name in classes if classes.count(name) > 1}
    plain = {name for group in query.groups if not group.suffix for name, _ in group.resources}
    suffixed = {name for group in query.groups if group.suffix for name, _ in group.resources}
    return plain & suffixed


def _remove_in_tree_without_resources(query: CandidatesQuery) -> CandidatesQuery:
    groups = tuple(
        group if group.resources else replace(group, in_tree=None) for group in query.groups
    )
    return replace(query, groups=groups)


def _replace_query_terms(request: Request, **terms: str | None) -> Request:
    old = parse_qsl(request.query, keep_blank_values=True)
    pairs = [(key, value) for key, value in old if key not in terms]
    pairs += [(key, value) for key, value in terms.items() if value is not None]
    return replace(request, target=f"{request.path}?{urlencode(pairs)}")


def _find_candidates_as_peer_reads_query(pair: ResponsePair) -> Candidates:
    """Return the expected candidates for the query as the peer interprets it.

    The peer ignores ``in_tree`` of groups without resources. It accepts a sharing provider whose
    root is in a forbidden aggregate.
    """
    query = parse_candidates_query(pair.request)
    treeless, spans = (
        _remove_in_tree_without_resources(query),
        not _is_only_root_of_sharing_provider_in_forbidden_aggregate(pair),
    )
    if spans and treeless == query:
        return pair.expected_candidates
    return find_expected_candidates(pair.cloud, pair.request, treeless, spans=spans)


def _find_candidates_of_sharing_providers(pair: ResponsePair) -> Candidates:
    sharers = {host.name for host in pair.cloud.hosts if SHARING_TRAIT in host.traits}
    treeless, spans = (
        _remove_in_tree_without_resources(parse_candidates_query(pair.request)),
        not _is_only_root_of_sharing_provider_in_forbidden_aggregate(pair),
    )
    return find_candidates_served_by(pair.cloud, pair.request, treeless, sharers, spans=spans)


def _is_only_root_of_sharing_provider_in_forbidden_aggregate(pair: ResponsePair) -> bool:
    """Return whether only the root of a sharing provider is in a forbidden aggregate.

    The peer checks the roots of the other trees, but not the root of the sharing provider. It then
    fails because the provider has no summary. It does not fail if a group with a suffix comes
    before the group without suffix, and a provider of the same tree can serve it.
    """
    plain = parse_candidates_query(pair.request).group
    forbidden = plain.aggregates.forbidden if plain else frozenset()
    return any(
        SHARING_TRAIT in host.traits
        and pair.cloud.root(host).aggregates & forbidden
        and not host.aggregates & forbidden
        for host in pair.cloud.hosts
    )


def _clear_amounts_of_classes(candidate: Candidate, classes: set[str]) -> Candidate:
    amounts, mappings = candidate
    return (
        frozenset((uuid, name, 0 if name in classes else amount) for uuid, name, amount in amounts),
        mappings,
    )


@register_explanation("candidates of sharing providers are complete")
def _peer_omits_candidates_of_sharing_providers(
    pair: ResponsePair, differences: Differences
) -> set[str]:
    """Detect missing candidates of the peer that sharing providers serve.

    The query has several groups, and only sharing providers serve the group without suffix. The
    peer's other candidates are correct, and a limit may shorten them.
    """
    if not _are_both_answered_and_ours_valid(pair):
        return set()
    query, response, anywhere = (
        parse_candidates_query(pair.request),
        parse_candidates(pair.theirs.document),
        _find_candidates_as_peer_reads_query(pair),
    )
    every = response
    if query.limit is not None:
        every = parse_candidates(
            pair.their_side.send_request(_replace_query_terms(pair.request, limit=None)).document
        )
    cut = every.total() if query.limit is None else min(query.limit, every.total())
    several = any(group.suffix for group in query.groups)
    lost = (
        several
        and every < anywhere
        and anywhere - every <= _find_candidates_of_sharing_providers(pair)
    )
    return {"body"} if lost and response <= every and response.total() == cut else set()


@register_explanation("a group without resources may have only forbidden traits")
def _peer_omits_candidates_for_forbidden_traits_only(
    pair: ResponsePair, differences: Differences
) -> set[str]:
    if not _are_both_answered_and_ours_valid(pair) or parse_candidates(pair.theirs.document):
        return set()
    bare = [group for group in parse_candidates_query(pair.request).groups if not group.resources]
    without = any(not (group.traits.required or group.aggregates.member_of) for group in bare)
    return {"body"} if without else set()


@register_explanation("in_tree of a group without resources has an effect")
def _peer_ignores_in_tree(pair: ResponsePair, differences: Differences) -> set[str]:
    if not _are_both_answered_and_ours_valid(pair) or _remove_in_tree_without_resources(
        parse_candidates_query(pair.request)
    ) == parse_candidates_query(pair.request):
        return set()
    return (
        {"body"}
        if parse_candidates(pair.theirs.document) == _find_candidates_as_peer_reads_query(pair)
        else set()
    )


@register_explanation("a root in a forbidden aggregate excludes its whole tree")
def _peer_allows_forbidden_root(pair: ResponsePair, differences: Differences) -> set[str]:
    if not _are_both_answered_and_ours_valid(
        pair
    ) or not _is_only_root_of_sharing_provider_in_forbidden_aggregate(pair):
        return set()
    every, response, limit = (
        _find_candidates_as_peer_reads_query(pair),
        parse_candidates(pair.theirs.document),
        parse_candidates_query(pair.request).limit,
    )
    cut = every.total() if limit is None else min(limit, every.total())
    summaries = sort_keys_and_lists(pair.theirs.document["provider_summaries"])
    whole = (
        pair.list_summaries_of(response).items()
        <= summaries.items()
        <= pair.list_summaries_of(every).items()
    )
    strange = (
        bool(response - pair.expected_candidates) and response <= every and response.total() == cut
    )
    return {"body"} if strange and whole else set()


@register_explanation("every provider that a candidate names is summarised")
def _peer_omits_mapped_provider(pair: ResponsePair, differences: Differences) -> set[str]:
    if not _are_both_answered_and_ours_valid(pair) or not pair.has_expected_candidates(pair.theirs):
        return set()
    allocated = pair.list_summaries_of(parse_candidates(pair.theirs.document))
    lacks = sort_keys_and_lists(pair.theirs.document["provider_summaries"]) == allocated
    same = parse_candidates(pair.theirs.document) == parse_candidates(pair.ours.document)
    return {"body"} if same and lacks else set()


@register_explanation("a valid request for candidates is answered")
def _peer_fails_on_valid_request(pair: ResponsePair, differences: Differences) -> set[str]:
    return set(differences) if pair.theirs.status == 500 and pair.is_our_response_valid else set()
