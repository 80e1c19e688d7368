# SPDX-License-Identifier: Apache-2.0
"""Differences in candidates, mostly defects of the peer that a naive search proves."""

from dataclasses import replace
from functools import partial
from urllib.parse import parse_qsl, urlencode

from placement_sched.model.candidates_query import CandidatesQuery
from tests.candidates.reference import SHARING_TRAIT
from tests.differential.comparison import Explanations, add_explanation
from tests.differential.differences import Differences, normalize
from tests.differential.exchange import Request
from tests.differential.explained.answer_pair import AnswerPair
from tests.differential.oracle import (
    Candidate,
    Candidates,
    expected_candidates,
    find_candidates_served_by,
    parse_candidates,
    parse_candidates_query,
)

CANDIDATES: Explanations = {}
explains = partial(add_explanation, CANDIDATES)


@explains("a limit may keep other candidates")
def _peer_chooses_other_candidates_within_limit(both: AnswerPair, found: Differences) -> set[str]:
    if (
        not _are_both_answered_and_ours_valid(both)
        or parse_candidates_query(both.request).limit is None
        or not both.has_expected_candidates(both.theirs)
    ):
        return set()
    document = normalize(both.theirs.document)["provider_summaries"]
    needed = both.list_summaries_of(parse_candidates(both.theirs.document))
    every = both.list_summaries_of(both.expected_candidates)
    return {"body"} if needed.items() <= document.items() <= every.items() else set()


def _are_both_answered_and_ours_valid(both: AnswerPair) -> bool:
    return both.is_our_answer_valid and both.theirs.status == 200


@explains("amounts of different candidates are not added")
def _peer_adds_amounts(both: AnswerPair, found: Differences) -> set[str]:
    """Detect candidates of the peer with wrong amounts of shared classes.

    The peer may also lose all candidates, because the added amounts exceed the capacity. It finds
    them with the policy ``none``, which does not add amounts.
    """
    query = (
        parse_candidates_query(both.request) if _are_both_answered_and_ours_valid(both) else None
    )
    # Our service ignores an invalid policy before a valid policy. The peer then adds the amounts of
    # any two groups.
    policies = [value for key, value in parse_qsl(both.request.query) if key == "group_policy"]
    odd = bool(policies) and policies[0] not in {"none", "isolate"}
    shared = _find_classes_in_two_groups(query, by_any=odd) if query else set()
    if not shared or policies[:1] == ["none"]:
        return set()
    anywhere = _find_candidates_as_peer_reads_query(both)
    known = {_clear_amounts_of_classes(candidate, shared) for candidate in anywhere}
    wrong = parse_candidates(both.theirs.document) - anywhere
    if wrong:
        plain = {_clear_amounts_of_classes(candidate, shared) for candidate in wrong}
        return {"body"} if plain <= known else set()
    with_none = both.their_side.get_answer(
        _replace_query_terms(both.request, group_policy="none", limit=None)
    )
    if with_none.status != 200:
        return set()
    lost = anywhere - parse_candidates(with_none.document)
    return {"body"} if lost <= _find_candidates_of_sharing_providers(both) else set()


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


def _find_candidates_as_peer_reads_query(both: AnswerPair) -> Candidates:
    """Return the expected candidates for the query as the peer interprets it.

    The peer ignores ``in_tree`` of groups without resources. It accepts a sharing provider whose
    root is in a forbidden aggregate.
    """
    query = parse_candidates_query(both.request)
    treeless, spans = _remove_in_tree_without_resources(query), not _is_forbidden_by_root_only(both)
    if spans and treeless == query:
        return both.expected_candidates
    return expected_candidates(both.cloud, both.request, treeless, spans=spans)


def _find_candidates_of_sharing_providers(both: AnswerPair) -> Candidates:
    sharers = {host.name for host in both.cloud.hosts if SHARING_TRAIT in host.traits}
    treeless, spans = (
        _remove_in_tree_without_resources(parse_candidates_query(both.request)),
        not _is_forbidden_by_root_only(both),
    )
    return find_candidates_served_by(both.cloud, both.request, treeless, sharers, spans=spans)


def _is_forbidden_by_root_only(both: AnswerPair) -> bool:
    """Return whether only the root of a sharing provider is in a forbidden aggregate.

    The peer checks the roots of the other trees, but not the root of the sharing provider. It then
    fails because the provider has no summary. It does not fail if a group with a suffix comes
    before the group without suffix, and a provider of the same tree can serve it.
    """
    plain = parse_candidates_query(both.request).group
    forbidden = plain.aggregates.forbidden if plain else frozenset()
    return any(
        SHARING_TRAIT in host.traits
        and both.cloud.root(host).aggregates & forbidden
        and not host.aggregates & forbidden
        for host in both.cloud.hosts
    )


def _clear_amounts_of_classes(candidate: Candidate, classes: set[str]) -> Candidate:
    amounts, mappings = candidate
    return (
        frozenset((uuid, name, 0 if name in classes else amount) for uuid, name, amount in amounts),
        mappings,
    )


@explains("candidates of sharing providers are complete")
def _peer_omits_candidates_of_sharing_providers(both: AnswerPair, found: Differences) -> set[str]:
    """Detect missing candidates of the peer that sharing providers serve.

    The query has several groups, and only sharing providers serve the group without suffix. The
    peer's other candidates are correct, and a limit may shorten them.
    """
    if not _are_both_answered_and_ours_valid(both):
        return set()
    query, answer, anywhere = (
        parse_candidates_query(both.request),
        parse_candidates(both.theirs.document),
        _find_candidates_as_peer_reads_query(both),
    )
    every = answer
    if query.limit is not None:
        every = parse_candidates(
            both.their_side.get_answer(_replace_query_terms(both.request, limit=None)).document
        )
    cut = every.total() if query.limit is None else min(query.limit, every.total())
    several = any(group.suffix for group in query.groups)
    lost = (
        several
        and every < anywhere
        and anywhere - every <= _find_candidates_of_sharing_providers(both)
    )
    return {"body"} if lost and answer <= every and answer.total() == cut else set()


@explains("a group without resources may have only forbidden traits")
def _peer_omits_candidates_for_forbidden_traits_only(
    both: AnswerPair, found: Differences
) -> set[str]:
    if not _are_both_answered_and_ours_valid(both) or parse_candidates(both.theirs.document):
        return set()
    bare = [group for group in parse_candidates_query(both.request).groups if not group.resources]
    without = any(not (group.traits.required or group.aggregates.member_of) for group in bare)
    return {"body"} if without else set()


@explains("in_tree of a group without resources has an effect")
def _peer_ignores_in_tree(both: AnswerPair, found: Differences) -> set[str]:
    if not _are_both_answered_and_ours_valid(both) or _remove_in_tree_without_resources(
        parse_candidates_query(both.request)
    ) == parse_candidates_query(both.request):
        return set()
    return (
        {"body"}
        if parse_candidates(both.theirs.document) == _find_candidates_as_peer_reads_query(both)
        else set()
    )


@explains("a root in a forbidden aggregate excludes its whole tree")
def _peer_allows_forbidden_root(both: AnswerPair, found: Differences) -> set[str]:
    if not _are_both_answered_and_ours_valid(both) or not _is_forbidden_by_root_only(both):
        return set()
    every, answer, limit = (
        _find_candidates_as_peer_reads_query(both),
        parse_candidates(both.theirs.document),
        parse_candidates_query(both.request).limit,
    )
    cut = every.total() if limit is None else min(limit, every.total())
    summaries = normalize(both.theirs.document["provider_summaries"])
    whole = (
        both.list_summaries_of(answer).items()
        <= summaries.items()
        <= both.list_summaries_of(every).items()
    )
    strange = bool(answer - both.expected_candidates) and answer <= every and answer.total() == cut
    return {"body"} if strange and whole else set()


@explains("every provider that a candidate names is summarised")
def _peer_omits_mapped_provider(both: AnswerPair, found: Differences) -> set[str]:
    if not _are_both_answered_and_ours_valid(both) or not both.has_expected_candidates(both.theirs):
        return set()
    allocated = both.list_summaries_of(parse_candidates(both.theirs.document))
    lacks = normalize(both.theirs.document["provider_summaries"]) == allocated
    same = parse_candidates(both.theirs.document) == parse_candidates(both.ours.document)
    return {"body"} if same and lacks else set()


@explains("a valid request for candidates is answered")
def _peer_fails_on_valid_request(both: AnswerPair, found: Differences) -> set[str]:
    return set(found) if both.theirs.status == 500 and both.is_our_answer_valid else set()
