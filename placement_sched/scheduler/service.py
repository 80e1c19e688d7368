"""The scheduler as the faces ask it: parse, run, claim or explain, answer."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any
from uuid import uuid4

from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Database
from placement_sched.errors import (
    CapacityExceeded,
    ConcurrentUpdate,
    ConfigurationError,
    Conflict,
    Invalid,
    NotFound,
    NoValidHost,
)
from placement_sched.model.clock import Clock
from placement_sched.model.decision import NO_VALID_HOST, SELECTED, Decision, digest_of
from placement_sched.model.report import View, hosts_as_json, terms_of
from placement_sched.model.spec import RequestSpec, request_spec_from
from placement_sched.scheduler import group_support, stored
from placement_sched.scheduler.claims import claim
from placement_sched.scheduler.completion import check_aliases, completed
from placement_sched.scheduler.hosts import Memory
from placement_sched.scheduler.loading import overridden, plugins_for
from placement_sched.scheduler.networks import NetworkDirectory, with_facts
from placement_sched.scheduler.pipeline import Run, Tools, funnel, run
from placement_sched.store import allocations, decisions

Json = dict[str, Any]

#: How often a request starts again because others took what it chose, before it gives up. Each
#: new start sees what the others left, so only as many starts are lost as there are rivals.
MAX_STARTS = 100

DEFAULT_POLICY = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduler:
    """Places requests: one per process, for any number of threads.

    ``neutron`` tells of networks and ports; None where nobody said how to ask it.
    """

    database: Database
    settings: Settings
    clock: Clock
    random: Random
    memory: Memory
    neutron: NetworkDirectory | None = None

    def select_destinations(
        self, document: Mapping[str, Any], *, alternates: bool = False, claiming: bool = True
    ) -> Json:
        """Return the hosts chosen for a request spec (contract §4), claimed unless told not to.

        Asked again with the same instance uuids it returns the same answer. Raises
        :class:`NoValidHost` with the funnel, :class:`Conflict` for instances that are placed
        already by another request, :class:`Invalid`, :class:`PluginFailed` and, where neutron is
        to be asked and does not answer, :class:`ServiceFailed`.
        """
        try:
            asked = self._whole(document)
        except (NotFound, Invalid):  # what it names may have gone since it was placed
            left = request_spec_from(_nameless(document))
            repeated = claiming and not left.is_rebuild
            earlier = self._earlier(left, document) if repeated else None
            if earlier is None:
                raise
            return earlier
        spec = _with_uuids(_spec_of(asked, self.settings))
        claiming = claiming and not spec.is_rebuild  # who stays keeps what it holds
        number = self.settings.scheduler.max_attempts - 1 if alternates else 0
        tools = self._tools(self.settings)
        for start in range(MAX_STARTS):
            if start and stored.names_group(document):  # whose members the rivals may be
                asked = self._whole(document)
                spec = replace(
                    _spec_of(asked, self.settings),
                    instance_uuids=spec.instance_uuids,
                    requested_networks=spec.requested_networks,
                )
            self.database.tally.claims_retried += bool(start)
            earlier = self._earlier(spec, document) if claiming else None
            if earlier is not None:
                return earlier
            group_support.check(spec, tools.plugins)
            spec = with_facts(spec, self.neutron, self.settings)
            with self.database.read() as connection:
                done = run(connection, spec, tools, number)
                self.database.tally.candidates = len(done.found.requests)
                if not done.selections:
                    told = funnel(connection, done, View()).as_json(View())
                    raise NoValidHost(_sentence(told), extra={"funnel": told})
            decision = _decision(spec, asked, done, _digest(spec, document))
            if not claiming:
                return dict(decision.answer)
            try:
                self._claim(spec, done, decision)
            except (CapacityExceeded, ConcurrentUpdate):
                continue
            return dict(decision.answer)
        raise ConcurrentUpdate("others took every host that was chosen; try again")

    def explain(
        self,
        document: Mapping[str, Any],
        *,
        overrides: Mapping[str, Any],
        view: View,
        alternates: bool = False,
    ) -> Json:
        """Return how a request would fare (contract §4), under other settings where given.

        The same run as :meth:`select_destinations`; nothing is claimed.
        """
        tools = self._tools_under(overrides) if overrides else self._tools(self.settings)
        spec = _spec_of(self._whole(document), tools.settings)
        group_support.check(spec, tools.plugins)
        spec = with_facts(spec, self.neutron, tools.settings)
        number = tools.settings.scheduler.max_attempts - 1 if alternates else 0
        with self.database.read() as connection:
            done = run(connection, spec, tools, number)
            told = funnel(connection, done, view).as_json(view)
        self.database.tally.candidates = len(done.found.requests)
        hosts = done.choice.first.host_reports() if done.choice else ()
        return {
            "outcome": SELECTED if done.selections else NO_VALID_HOST,
            "policy": DEFAULT_POLICY,
            "funnel": told,
            "hosts": hosts_as_json(hosts, view),
            "selections": _selections(done),
        }

    def _whole(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the request with what it names looked up among what is stored."""
        if not stored.names_some(document):
            return document
        with self.database.read() as connection:
            return stored.whole(connection, document)

    def _tools(self, settings: Settings) -> Tools:
        return Tools(
            settings=settings,
            plugins=plugins_for(settings, self.clock),
            memory=self.memory,
            random=self.random,
        )

    def _tools_under(self, overrides: Mapping[str, Any]) -> Tools:
        """Return the tools of other settings; raises :class:`Invalid` where they cannot be."""
        settings = overridden(self.settings, overrides)
        try:
            check_aliases(settings)
            return self._tools(settings)
        except ConfigurationError as wrong:
            raise Invalid(f"overrides: {wrong.detail}") from None

    def _claim(self, spec: RequestSpec, done: Run, decision: Decision) -> None:
        options = self.settings.placement
        self.database.claim(
            partial(
                claim,
                spec=spec,
                selections=tuple(best for best, *_ in done.selections),
                decision=decision,
                nobody=(
                    options.incomplete_consumer_project_id,
                    options.incomplete_consumer_user_id,
                ),
                now=self.clock(),
            )
        )

    def _earlier(self, spec: RequestSpec, document: Mapping[str, Any]) -> Json | None:
        """Return the answer that an earlier, equal request was given, while it still holds.

        Raises :class:`Conflict` where an instance holds allocations by another request.
        """
        with self.database.read() as connection:
            held = {
                one.consumer.uuid
                for one in allocations.of_consumers(connection, spec.instance_uuids)
            }
            if not held:
                return None
            placed = decisions.of_instances(connection, spec.instance_uuids)
        digest = _digest(spec, document)
        answers = {decision.uuid: decision for decision in placed.values()}
        if (
            len(answers) == 1
            and placed.keys() == held == set(spec.instance_uuids)
            and all(decision.digest == digest for decision in answers.values())
        ):
            return dict(next(iter(answers.values())).answer)
        raise Conflict(
            f"instance {min(held)} holds allocations already, by another request",
            code="scheduler.instance_placed",
        )


def _decision(spec: RequestSpec, asked: Mapping[str, Any], done: Run, digest: str) -> Decision:
    uuid = str(uuid4())
    return Decision(
        uuid=uuid,
        outcome=SELECTED,
        project_id=spec.project_id,
        digest=digest,
        request=asked,
        answer={
            "decision": uuid,
            "policy": DEFAULT_POLICY,
            "selections": _selections(done),
            **_named_here(spec, asked),
        },
    )


def _spec_of(document: Mapping[str, Any], settings: Settings) -> RequestSpec:
    return completed(request_spec_from(document), document, settings)


def _nameless(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return of a request what tells which instances it places, and whether they stay."""
    telling = ("instance_uuids", "scheduler_hints")
    return {name: document[name] for name in telling if name in document}


def _with_uuids(spec: RequestSpec) -> RequestSpec:
    """Return the request with a uuid for each instance, new ones where the caller named none."""
    if spec.instance_uuids:
        return spec
    return replace(spec, instance_uuids=tuple(str(uuid4()) for _ in range(spec.num_instances)))


def _digest(spec: RequestSpec, document: Mapping[str, Any]) -> str:
    """Return what tells this request from others, however it spells or counts its instances."""
    same = {key: value for key, value in document.items() if key != "num_instances"}
    return digest_of({**same, "instance_uuids": list(spec.instance_uuids)})


def _named_here(spec: RequestSpec, document: Mapping[str, Any]) -> Json:
    """Return the instance uuids where the caller named none and has to learn them."""
    return {} if document.get("instance_uuids") else {"instance_uuids": list(spec.instance_uuids)}


def _selections(done: Run) -> list[list[Json]]:
    return [[selection.as_json() for selection in some] for some in done.selections]


def _sentence(told: Mapping[str, Any]) -> str:
    """Return in one sentence where a request ended."""
    for report in told["request_filters"]:
        if report.get("refusal"):
            return f"No valid host was found: {report['name']}: {report['refusal']}"
    candidates = told["allocation_candidates"]
    last = next((one for one in told["filters"] if one["before"] and not one["after"]), None)
    if not candidates["hosts"] and last is None:
        return f"No valid host was found: {_narrowest(candidates)}"
    if last is not None:
        return f"No valid host was found: {last['name']} refused the last {last['before']}"
    return "No valid host was found for every instance of the request"


def _narrowest(candidates: Mapping[str, Any]) -> str:
    """Return which constraints stand in the way, or, where no few do, which came last."""
    for miss in candidates.get("nearest_misses", ()):
        terms = " and ".join(f"{one['constraint']} {one['detail']}" for one in terms_of(miss))
        stand = "stand" if miss.get("and") else "stands"
        return f"only {terms} {stand} in the way of {miss['hosts']} host(s)"
    emptied = next((step for step in candidates["steps"] if not step["after"]), None)
    if emptied is None:
        return "there is no resource provider" if candidates["query"] else "there is no such host"
    return f"{emptied['constraint']} {emptied['detail']} left none of {emptied['before']}"
