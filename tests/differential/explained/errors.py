# SPDX-License-Identifier: Apache-2.0
"""Differences in rejections and in the format of errors."""

import re
from dataclasses import replace
from functools import partial
from urllib.parse import parse_qsl, quote, unquote, urlencode

from webob.acceptparse import create_accept_header

from placement_sched.api.request import JSON
from tests.differential.comparison import Explanations, add_explanation
from tests.differential.differences import Differences
from tests.differential.explained.response_pair import ResponsePair
from tests.differential.spelling import canonicalize_uuids
from tests.differential.state import get_in_newest_version

ERROR_EXPLANATIONS: Explanations = {}
register_explanation = partial(add_explanation, ERROR_EXPLANATIONS)


@register_explanation("errors name the microversion in vary")
def _vary_header_differs(pair: ResponsePair, differences: Differences) -> set[str]:
    values = differences.get("header vary")
    is_missing = values and values[1] is None and values[0] == "openstack-api-version"
    return {"header vary"} if is_missing and pair.theirs.status >= 400 else set()


@register_explanation("a client that accepts JSON gets errors as JSON")
def _error_format_differs(pair: ResponsePair, differences: Differences) -> set[str]:
    if not pair.is_rejected_by_both or not pair.theirs.is_error_page:
        return set()
    accept = create_accept_header(pair.request.headers.get("Accept"))
    if pair.ours.headers.get("content-type") != JSON or not accept.acceptable_offers([JSON]):
        return set()
    return {"body", "header content-type", "names in detail"} | {
        aspect for aspect in differences if aspect.startswith("error ")
    }


@register_explanation("401 has the form of all other errors")
def _response_to_unknown_caller_differs(pair: ResponsePair, differences: Differences) -> set[str]:
    document = pair.theirs.document
    own_form = isinstance(document, dict) and {"code", "message", "title"} == document.keys()
    if not pair.is_rejected_by_both or pair.ours.status != 401 or not own_form:
        return set()
    return {"body", "error status", "error title", "error code"}


_VALIDATION_ERROR_TEXTS = ("JSON does not validate", "Invalid query string parameters")


@register_explanation("a malformed body is reported with the place of the fault")
def _schema_error_has_a_path(pair: ResponsePair, differences: Differences) -> set[str]:
    ours = pair.ours.detail
    placed = "(at $" in ours and any(words in ours for words in _VALIDATION_ERROR_TEXTS)
    return {"names in detail"} if pair.is_rejected_by_both and placed else set()


@register_explanation("of several faults in a query another one may be reported")
def _sides_report_different_faults_first(pair: ResponsePair, differences: Differences) -> set[str]:
    several = pair.request.query.count("=") > 1 and pair.request.method == "GET"
    return (
        {"names in detail"}
        if several and pair.is_rejected_by_both and pair.ours.status == 400
        else set()
    )


_CONFLICT_ERROR_TEXTS = ("Unable to allocate inventory: ", "that does not exist.")


@register_explanation("a rejected claim names class, provider and amounts")
def _sides_report_different_conflicts_first(
    pair: ResponsePair, differences: Differences
) -> set[str]:
    equal = any(
        words in pair.ours.detail and words in pair.theirs.detail for words in _CONFLICT_ERROR_TEXTS
    )
    return {"names in detail"} if pair.is_rejected_by_both and equal else set()


@register_explanation("a path of a later microversion is 404, whatever the body")
def _peer_checks_body_before_version(pair: ResponsePair, differences: Differences) -> set[str]:
    early = (pair.ours.status, pair.theirs.status) == (404, 415)
    return set(differences) if early and "not served at" in pair.ours.detail else set()


@register_explanation("a malformed request is 400, not 500")
def _peer_fails_on_bad_request(pair: ResponsePair, differences: Differences) -> set[str]:
    return set(differences) if pair.theirs.status == 500 and pair.ours.status == 400 else set()


@register_explanation("the first limit must be at least 1")
def _first_of_repeated_limits_is_used(pair: ResponsePair, differences: Differences) -> set[str]:
    limits = [value for key, value in parse_qsl(pair.request.query) if key == "limit"]
    rejected = (pair.ours.status, pair.theirs.status) == (400, 200) and limits[1:]
    return set(differences) if rejected and re.fullmatch("-?[0-9]+", limits[0]) else set()


@register_explanation("usages by consumer type work on PostgreSQL")
def _peer_fails_on_usages_by_consumer_type(
    pair: ResponsePair, differences: Differences
) -> set[str]:
    statuses = (pair.ours.status, pair.theirs.status)
    if (
        unquote(pair.request.path) != "/usages"
        or statuses != (200, 500)
        or pair.request.minor_version < 38
    ):
        return set()
    pairs = [(key, value) for key, value in parse_qsl(pair.request.query) if key in _OWNER_FIELDS]
    untyped = replace(pair.request, target=f"/usages?{urlencode(pairs)}", version="1.37")
    ours, theirs = pair.our_side.send_request(untyped), pair.their_side.send_request(untyped)
    return set(differences) if ours.document == theirs.document else set()


_OWNER_FIELDS = {"project_id", "user_id"}


@register_explanation("NUL characters and bytes that are not UTF-8 are 400")
def _nul_character_is_rejected(pair: ResponsePair, differences: Differences) -> set[str]:
    words = ("NUL character", "not valid UTF-8")
    rejected = pair.ours.status == 400 and any(word in pair.ours.detail for word in words)
    return set(differences) if rejected else set()


_INVENTORY_NAME_PATTERN = re.compile(r"inventories\['(?P<name>.*)'\]\S*\)\. Failed")


@register_explanation("a malformed body is reported before a conflict")
def _peer_reports_conflict_before_invalid_name(
    pair: ResponsePair, differences: Differences
) -> set[str]:
    place = _INVENTORY_NAME_PATTERN.search(pair.ours.detail)
    early = (pair.ours.status, pair.theirs.status) == (400, 409)
    conflict = "generation conflict" in pair.theirs.detail
    odd = place and not re.fullmatch("[A-Z0-9_]+", place["name"])
    return set(differences) if early and conflict and odd else set()


@register_explanation("a body may name a consumer only once")
def _consumer_is_repeated_in_another_uuid_spelling(
    pair: ResponsePair, differences: Differences
) -> set[str]:
    document = pair.request.document
    if pair.ours.status != 400 or "names a consumer twice" not in pair.ours.detail:
        return set()
    claims = document["allocations"] if unquote(pair.request.path) == "/reshaper" else document
    return (
        set(differences)
        if len({canonicalize_uuids(uuid) for uuid in claims}) < len(claims)
        else set()
    )


_UNKNOWN_NAME_PATTERN = re.compile(r"No such (trait\(s\)|resource class):? (.*)\.$")


@register_explanation("an unknown trait or class is always 400")
def _unknown_name_is_rejected(pair: ResponsePair, differences: Differences) -> set[str]:
    named = _UNKNOWN_NAME_PATTERN.search(pair.ours.detail)
    if not named or pair.theirs.status != 200:
        return set()
    nobody = not any(pair.theirs.document.values())
    nouns = "traits" if named[1].startswith("trait") else "resource_classes"
    unknown = all(
        get_in_newest_version(pair.their_side, f"/{nouns}/{quote(name)}").status == 404
        for name in named[2].split(", ")
    )
    return set(differences) if nobody and unknown else set()
