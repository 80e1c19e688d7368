# SPDX-License-Identifier: Apache-2.0
"""Several requests in a call, which are all claimed or not at all.

Each request has the steps of :mod:`placement_sched.scheduler.scheduler`, up to the choice. A later
request counts the instances of earlier requests as if they were already on their hosts. A single
claim then allocates the resources of all requests.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace

from placement_sched.errors import (
    CapacityExceeded,
    ConcurrentUpdate,
    Invalid,
    NotFound,
    TooComplex,
    relocate_errors,
)
from placement_sched.limits import MAX_CLAIM_ATTEMPTS, MAX_INSTANCES, MAX_REQUESTED_AMOUNTS
from placement_sched.model.candidates_query import iterate_amounts
from placement_sched.model.context import NO_REQUEST, RequestIds
from placement_sched.model.decision import DecisionSeed, SchedulingResult
from placement_sched.model.document import Document
from placement_sched.model.request_stats import get_request_stats
from placement_sched.scheduler.claim import ClaimMode
from placement_sched.scheduler.decisions import build_no_valid_host, make_decision
from placement_sched.scheduler.explain.funnel import build_funnel
from placement_sched.scheduler.host_manager import UnclaimedInstance
from placement_sched.scheduler.request import (
    REQUEST_PATH,
    RequestReader,
    SchedulingRequest,
    check_document_sizes,
)
from placement_sched.scheduler.scheduler import LOST_TOO_OFTEN, Scheduler
from placement_sched.scheduler.selection import SchedulingRun

#: The uuid of a server group, and whether it is stored.
_GroupKey = tuple[str, bool]
#: An instance that an earlier request has placed, and its server group.
_Placed = tuple[_GroupKey | None, UnclaimedInstance]


def select_together(
    scheduler: Scheduler,
    documents: Sequence[Document],
    *,
    alternates: bool = False,
    claiming: ClaimMode = ClaimMode.NEW,
    ids: RequestIds = NO_REQUEST,
) -> list[SchedulingResult]:
    """Select hosts for several requests, and claim all or none of them.

    A request that an equal request of an earlier call has claimed keeps its hosts. Raises the
    errors of :meth:`Scheduler.select_destinations`, with JSON paths below ``$.requests``.
    """
    entries = {
        f"$.requests[{position}].request_spec": document
        for position, document in enumerate(documents)
    }
    _check_instances(entries)
    results: dict[str, SchedulingResult] = {}
    requests: dict[str, SchedulingRequest] = {}
    with ExitStack() as notifications:
        for path, document in entries.items():
            with relocate_errors(REQUEST_PATH, path):
                try:
                    request = scheduler.reader.read(document, alternates=alternates)
                except (NotFound, Invalid):
                    claimed = scheduler.find_claim(document, claiming, ids)
                    if claimed is None:
                        raise
                    results[path] = claimed
                    continue
                notifications.enter_context(scheduler.notifier.notify_of_request(request.spec))
                request = replace(request, is_joint=len(entries) > 1)
                if claimed := scheduler.find_claim(document, claiming, ids):
                    results[path] = claimed
                else:
                    requests[path] = scheduler.reader.validate(request)
                    check_document_sizes([*requests.values()])
        results |= _select_and_claim(scheduler, requests, claiming, ids)
    return [results[path] for path in entries]


def _select_and_claim(
    scheduler: Scheduler,
    requests: dict[str, SchedulingRequest],
    claiming: ClaimMode,
    ids: RequestIds,
) -> dict[str, SchedulingResult]:
    """Select hosts and claim them, and return the results by JSON path."""
    results: dict[str, SchedulingResult] = {}
    seeds = {path: DecisionSeed.draw(scheduler.random) for path in requests}
    for attempt in range(MAX_CLAIM_ATTEMPTS):
        if attempt:
            get_request_stats().claims_retried += 1
            for path, request in [*requests.items()]:
                spec, digest = request.spec, request.digest
                with relocate_errors(REQUEST_PATH, path):
                    claimed = scheduler.claims.find_existing_claim(spec, digest, claiming, ids)
                    if claimed is not None:
                        results[path] = claimed
                        del requests[path]
                    else:
                        requests[path] = scheduler.reader.read_again(request)
        if not requests:
            return results
        seeds = {path: replace(seed, attempt=attempt) for path, seed in seeds.items()}
        runs = _run_in_turn(scheduler, requests, seeds, claiming, ids)
        try:
            claimed_results = scheduler.claims.claim(runs, ids, claiming)
        except (CapacityExceeded, ConcurrentUpdate):
            continue
        return results | dict(zip(requests, claimed_results, strict=True))
    raise ConcurrentUpdate(LOST_TOO_OFTEN)


def _run_in_turn(
    scheduler: Scheduler,
    requests: Mapping[str, SchedulingRequest],
    seeds: Mapping[str, DecisionSeed],
    claiming: ClaimMode,
    ids: RequestIds,
) -> list[SchedulingRun]:
    """Run the requests in order, each with the instances of earlier requests."""
    runs: list[SchedulingRun] = []
    placed: list[_Placed] = []
    for path, request in requests.items():
        with relocate_errors(REQUEST_PATH, path), scheduler.source.read() as connection:
            run = scheduler.evaluate(
                connection,
                _with_placed_members(request, placed),
                seed=seeds[path],
                unclaimed=[instance for _, instance in placed],
            )
            funnel = None if run.selections else build_funnel(run, connection)
        if funnel is not None:
            decision = make_decision(run, funnel, claiming.decision_kind, ids)
            scheduler.claims.record(decision)
            raise build_no_valid_host(funnel, decision, path.removesuffix(".request_spec"))
        runs.append(run)
        key = _find_group_key(run.request)
        placed += [(key, instance) for instance in run.list_placed_instances()]
        amounts = [
            pair
            for _, instance in placed
            for pair in iterate_amounts(instance.selection.allocation_request)
        ]
        if len(requests) > 1 and len(amounts) > MAX_REQUESTED_AMOUNTS:
            raise TooComplex(
                f"the requests together exceed {MAX_REQUESTED_AMOUNTS} amounts of resources",
                json_path="$.requests",
            )
    return runs


def _check_instances(entries: Mapping[str, Document]) -> None:
    """Raise :class:`Invalid` for documents that cannot be placed together."""
    path_by_uuid: dict[str, str] = {}
    count = 0
    for path, document in entries.items():
        spec = RequestReader.read_instances(document)
        if spec.is_rebuild:
            raise Invalid(
                "a rebuild cannot be placed together with other requests: send it alone",
                json_path=f"{path}.scheduler_hints",
            )
        count += len(spec.instance_uuids) or document.get("num_instances", 1)
        for position, uuid in enumerate(spec.instance_uuids):
            json_path = f"{path}.instance_uuids[{position}]"
            if uuid in path_by_uuid:
                raise Invalid(
                    f"instance {uuid} is also at {path_by_uuid[uuid]}", json_path=json_path
                )
            path_by_uuid[uuid] = json_path
    if count > MAX_INSTANCES:
        raise Invalid(
            f"the requests are for {count} instances, the maximum is {MAX_INSTANCES}",
            json_path="$.requests",
        )


def _find_group_key(request: SchedulingRequest) -> _GroupKey | None:
    group = request.spec.instance_group
    return (group.uuid, request.names_group) if group is not None and group.uuid else None


def _with_placed_members(
    request: SchedulingRequest, placed: Sequence[_Placed]
) -> SchedulingRequest:
    """Add instances of earlier requests in the same server group to the group."""
    key, group = _find_group_key(request), request.spec.instance_group
    joined = [instance for its_key, instance in placed if its_key == key]
    if group is None or key is None or not joined:
        return request
    uuids = (each.spec.instance_uuid or "" for each in joined)
    hosts = (each.selection.service_host for each in joined)
    spec = replace(request.spec, instance_group=group.with_members(uuids, hosts))
    return replace(request, spec=spec)
