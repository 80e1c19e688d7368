# SPDX-License-Identifier: Apache-2.0
"""Log lines about nova's calls, with ids of request, user and project as fields.

The fields are for ``[DEFAULT] use_json``, as in the access log of HTTP requests.
"""

import logging
from collections.abc import Mapping
from typing import Any

from placement_sched import errors
from placement_sched.errors import one_line
from placement_sched.model.context import RequestIds
from placement_sched.model.document import Json
from placement_sched.scheduler.explain.funnel import log_slow

LOG = logging.getLogger(__name__)

#: Maximum length of an id, in characters.
_MAX_ID = 255

Context = Mapping[str, Any]


def ids_of(context: Context) -> RequestIds:
    """Return the ids of a message's request, from nova's context."""
    return RequestIds(text_of(context, "request_id"), text_of(context, "global_request_id"))


def fields_of(context: Context, method: str, outcome: str, seconds: float) -> dict[str, Any]:
    """Build the log fields of a call: ids, outcome and duration.

    ``outcome`` is the label ``outcome`` of the metric ``placement_sched_rpc_calls_total``.
    """
    ids = ids_of(context)
    return {
        "request_id": ids.request_id,
        "global_request_id": ids.global_request_id,
        "user_id": text_of(context, "user_id") or text_of(context, "user"),
        "project_id": text_of(context, "project_id") or text_of(context, "tenant"),
        "method": method,
        "outcome": outcome,
        "duration_ms": round(seconds * 1000, 1),
    }


def log_selection(document: Json, answer: Json, fields: dict[str, Any]) -> None:
    """Log the selected hosts, with the project of the request spec ``document``."""
    hosts = [best["service_host"] for best, *_ in answer["selections"]]
    project = document.get("project_id")
    log_fields = fields | {"project_id": project, "instances": len(hosts), "hosts": len(set(hosts))}
    LOG.info(
        "selected hosts for %s instances: %s, and %s more (project %r, request %s) %.1f ms",
        len(hosts),
        hosts[0],
        len(set(hosts)) - 1,
        project,
        fields["request_id"],
        fields["duration_ms"],
        extra={"extra": log_fields},
    )


def log_rejection(
    failure: errors.Error, sent: Mapping[str, Any], fields: dict[str, Any], level: int
) -> None:
    """Log a rejected call, whose arguments were ``sent``, with reason and decision."""
    uuids = sent.get("instance_uuids")
    if not isinstance(uuids, list) or not uuids:
        uuids = ["unknown"]
    more = f" and {len(uuids) - 1} more" if len(uuids) > 1 else ""
    decision_uuid = failure.extra.get("decision")
    decision = f", decision {decision_uuid}" if decision_uuid else ""
    LOG.log(
        level,
        "%s (instance %s%s, request %s%s)",
        one_line(failure),
        uuids[0],
        more,
        fields["request_id"],
        decision,
        extra={"extra": fields | {"decision": decision_uuid}},
    )


def log_slow_call(fields: dict[str, Any]) -> None:
    """Log a slow call with the time of its steps and the counts of its funnel."""
    # The outcome of the call replaces that of the decision, which is in the sentence.
    log_slow(LOG, fields["method"], f"{fields['outcome']}, request {fields['request_id']}", fields)


def text_of(context: Context, name: str) -> str | None:
    """Read a text from nova's context, cut to the length of an id, or return None."""
    value = context.get(name)
    return value[:_MAX_ID] if isinstance(value, str) else None
