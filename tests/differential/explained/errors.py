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
from tests.differential.explained.answer_pair import AnswerPair
from tests.differential.spelling import canonicalize_uuids
from tests.differential.state import get_in_newest_version

ERRORS: Explanations = {}
explains = partial(add_explanation, ERRORS)


@explains("errors name the microversion in vary")
def _vary_header_differs(both: AnswerPair, found: Differences) -> set[str]:
    values = found.get("header vary")
    is_missing = values and values[1] is None and values[0] == "openstack-api-version"
    return {"header vary"} if is_missing and both.theirs.status >= 400 else set()


@explains("a client that accepts JSON gets errors as JSON")
def _error_format_differs(both: AnswerPair, found: Differences) -> set[str]:
    if not both.is_rejected_by_both or not both.theirs.is_error_page:
        return set()
    accept = create_accept_header(both.request.headers.get("Accept"))
    if both.ours.headers.get("content-type") != JSON or not accept.acceptable_offers([JSON]):
        return set()
    return {"body", "header content-type", "names in detail"} | {
        aspect for aspect in found if aspect.startswith("error ")
    }


@explains("401 has the form of all other errors")
def _unknown_caller_differs(both: AnswerPair, found: Differences) -> set[str]:
    document = both.theirs.document
    own_form = isinstance(document, dict) and {"code", "message", "title"} == document.keys()
    if not both.is_rejected_by_both or both.ours.status != 401 or not own_form:
        return set()
    return {"body", "error status", "error title", "error code"}


_FAULTS = ("JSON does not validate", "Invalid query string parameters")


@explains("a malformed body is reported with the place of the fault")
def _schema_error_has_a_path(both: AnswerPair, found: Differences) -> set[str]:
    ours = both.ours.detail
    placed = "(at $" in ours and any(words in ours for words in _FAULTS)
    return {"names in detail"} if both.is_rejected_by_both and placed else set()


@explains("of several faults in a query another one may be reported")
def _sides_report_different_faults_first(both: AnswerPair, found: Differences) -> set[str]:
    several = both.request.query.count("=") > 1 and both.request.method == "GET"
    return (
        {"names in detail"}
        if several and both.is_rejected_by_both and both.ours.status == 400
        else set()
    )


_OBSTACLES = ("Unable to allocate inventory: ", "that does not exist.")


@explains("a refused claim names class, provider and amounts")
def _sides_report_different_obstacles(both: AnswerPair, found: Differences) -> set[str]:
    equal = any(words in both.ours.detail and words in both.theirs.detail for words in _OBSTACLES)
    return {"names in detail"} if both.is_rejected_by_both and equal else set()


@explains("a path of a later microversion is 404, whatever the body")
def _peer_checks_body_before_version(both: AnswerPair, found: Differences) -> set[str]:
    early = (both.ours.status, both.theirs.status) == (404, 415)
    return set(found) if early and "not served at" in both.ours.detail else set()


@explains("a malformed request is 400, not 500")
def _peer_fails_on_bad_request(both: AnswerPair, found: Differences) -> set[str]:
    return set(found) if both.theirs.status == 500 and both.ours.status == 400 else set()


@explains("the first limit must be at least 1")
def _first_of_repeated_limits_is_used(both: AnswerPair, found: Differences) -> set[str]:
    limits = [value for key, value in parse_qsl(both.request.query) if key == "limit"]
    refused = (both.ours.status, both.theirs.status) == (400, 200) and limits[1:]
    return set(found) if refused and re.fullmatch("-?[0-9]+", limits[0]) else set()


@explains("usages by consumer type work on PostgreSQL")
def _peer_fails_on_usages_by_consumer_type(both: AnswerPair, found: Differences) -> set[str]:
    statuses = (both.ours.status, both.theirs.status)
    if (
        unquote(both.request.path) != "/usages"
        or statuses != (200, 500)
        or both.request.minor_version < 38
    ):
        return set()
    pairs = [(key, value) for key, value in parse_qsl(both.request.query) if key in _OWNERS]
    untyped = replace(both.request, target=f"/usages?{urlencode(pairs)}", version="1.37")
    ours, theirs = both.our_side.get_answer(untyped), both.their_side.get_answer(untyped)
    return set(found) if ours.document == theirs.document else set()


_OWNERS = {"project_id", "user_id"}


@explains("NUL characters and bytes that are not UTF-8 are 400")
def _nul_character_is_rejected(both: AnswerPair, found: Differences) -> set[str]:
    words = ("NUL character", "not valid UTF-8")
    refused = both.ours.status == 400 and any(word in both.ours.detail for word in words)
    return set(found) if refused else set()


_UNDER_A_NAME = re.compile(r"inventories\['(?P<name>.*)'\]\S*\)\. Failed")


@explains("a malformed body is reported before a conflict")
def _peer_reports_conflict_before_invalid_name(both: AnswerPair, found: Differences) -> set[str]:
    place = _UNDER_A_NAME.search(both.ours.detail)
    early = (both.ours.status, both.theirs.status) == (400, 409)
    conflict = "generation conflict" in both.theirs.detail
    odd = place and not re.fullmatch("[A-Z0-9_]+", place["name"])
    return set(found) if early and conflict and odd else set()


@explains("a body may name a consumer only once")
def _consumer_repeated_in_other_spelling(both: AnswerPair, found: Differences) -> set[str]:
    document = both.request.document
    if both.ours.status != 400 or "names a consumer twice" not in both.ours.detail:
        return set()
    claims = document["allocations"] if unquote(both.request.path) == "/reshaper" else document
    return set(found) if len({canonicalize_uuids(uuid) for uuid in claims}) < len(claims) else set()


_NO_SUCH = re.compile(r"No such (trait\(s\)|resource class):? (.*)\.$")


@explains("an unknown trait or class is always 400")
def _unknown_name_is_rejected(both: AnswerPair, found: Differences) -> set[str]:
    named = _NO_SUCH.search(both.ours.detail)
    if not named or both.theirs.status != 200:
        return set()
    nobody = not any(both.theirs.document.values())
    nouns = "traits" if named[1].startswith("trait") else "resource_classes"
    unknown = all(
        get_in_newest_version(both.their_side, f"/{nouns}/{quote(name)}").status == 404
        for name in named[2].split(", ")
    )
    return set(found) if nobody and unknown else set()
