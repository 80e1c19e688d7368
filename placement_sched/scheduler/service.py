"""The scheduler as the faces ask it: parse, run, claim or explain, answer."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any
from uuid import uuid4

from oslo_log import log

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
    Unavailable,
)
from placement_sched.model.clock import Clock
from placement_sched.model.decision import (
    NO_CLAIM,
    NO_VALID_HOST,
    SELECT,
    SELECTED,
    Decision,
    digest_of,
)
from placement_sched.model.host_aggregate import HostAggregate
from placement_sched.model.host_report import hosts_as_json
from placement_sched.model.report import Funnel, View
from placement_sched.model.request_ids import NO_REQUEST, RequestIds
from placement_sched.model.spec import RequestSpec, request_spec_from
from placement_sched.notifications.announcer import SILENT, Announcer, Began
from placement_sched.scheduler import group_support, stored
from placement_sched.scheduler.aggregates import Aggregates
from placement_sched.scheduler.asked_hosts import asked_hosts
from placement_sched.scheduler.claims import claim
from placement_sched.scheduler.completion import check_aliases, completed
from placement_sched.scheduler.decisions import Retention, decided
from placement_sched.scheduler.hosts import Memory
from placement_sched.scheduler.live_settings import LiveSettings
from placement_sched.scheduler.loading import plugins_for
from placement_sched.scheduler.networks import NetworkDirectory, with_facts
from placement_sched.scheduler.overriding import overridden
from placement_sched.scheduler.pci_devices import assigned
from placement_sched.scheduler.pipeline import Run, Tools, funnel, outline, run
from placement_sched.scheduler.policies.registry import Policies, policies_for
from placement_sched.scheduler.policies.selection import Chosen, choose, under
from placement_sched.scheduler.policies.shown import all_shown, one_shown
from placement_sched.scheduler.verdicts import verdicts
from placement_sched.store import allocations, decisions

LOG = log.getLogger(__name__)

Json = dict[str, Any]
Asked = Mapping[str, Any]

#: How often a request starts again because others took what it chose, before it gives up. Each
#: new start sees what the others left, so only as many starts are lost as there are rivals.
MAX_STARTS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduler:
    """Places requests: one per process, for any number of threads.

    ``neutron`` tells of networks and ports; None where nobody said how to ask it. ``announcer``
    tells others, over a message bus, what is asked and how it ends.
    """

    database: Database
    settings: Settings
    clock: Clock
    random: Random
    memory: Memory
    neutron: NetworkDirectory | None = None
    announcer: Announcer = SILENT
    retention: Retention = field(init=False)
    live: LiveSettings = field(init=False)

    def __post_init__(self) -> None:
        keeping = self.settings.scheduler.decision_retention
        object.__setattr__(self, "retention", Retention(self.database, keeping))
        object.__setattr__(
            self,
            "live",
            LiveSettings(self.settings, self.clock, in_use=self._policies_in_use),
        )

    def select_destinations(
        self,
        document: Asked,
        *,
        alternates: bool = False,
        claiming: bool = True,
        ids: RequestIds = NO_REQUEST,
    ) -> Json:
        """Return the hosts chosen for a request spec (contract §4), claimed unless told not to.

        Asked again with the same instance uuids it returns the same answer. Raises
        :class:`NoValidHost` with the funnel, :class:`Conflict` for instances that are placed
        already by another request, :class:`Invalid`, :class:`PluginFailed` and, where neutron is
        to be asked and does not answer, :class:`ServiceFailed`.
        """
        with self.announcer.telling() as began:
            return self._select(document, began, ids, alternates=alternates, claiming=claiming)

    def _select(
        self, document: Asked, began: Began, ids: RequestIds, *, alternates: bool, claiming: bool
    ) -> Json:
        try:
            asked = self._whole(document)
        except (NotFound, Invalid):  # what it names may have gone since it was placed
            left = request_spec_from(_nameless(document))
            repeated = claiming and not left.is_rebuild
            earlier = self._earlier(left, document) if repeated else None
            if earlier is None:
                raise
            return earlier
        spec, chosen, aggregates = self._under_policy(asked)
        settings = chosen.policy.settings
        kind = SELECT if claiming else NO_CLAIM
        claiming = claiming and not spec.is_rebuild  # who stays keeps what it holds
        began(spec)
        number = settings.scheduler.max_attempts - 1 if alternates else 0
        tools = self._tools(settings)
        for start in range(MAX_STARTS):
            if start and stored.names_group(document):  # whose members the rivals may be
                asked = self._whole(document)
                spec = replace(
                    chosen.confining(_spec_of(asked, settings)),
                    instance_uuids=spec.instance_uuids,
                    requested_networks=spec.requested_networks,
                )
            self.database.tally.claims_retried += bool(start)
            earlier = self._earlier(spec, document) if claiming else None
            if earlier is not None:
                return earlier
            group_support.check(spec, tools.plugins)
            spec = with_facts(spec, self.neutron, settings)
            with self.database.read() as connection:
                done = run(connection, spec, tools, number, None if start else aggregates)
                done = replace(done, policy=chosen.report)
                self.database.tally.candidates = len(done.found.requests)
                found = bool(done.selections)
                told = outline(done) if found else funnel(connection, done, View(), self.memory)
            decision = decided(spec, asked, done, told, _digest(spec, document))
            decision = replace(decision, request_ids=ids, kind=kind)
            try:
                self._write_down(spec, done, decision, claiming=claiming and found)
            except (CapacityExceeded, ConcurrentUpdate):
                continue
            if claiming and tools.plugins.driver.keeps_states:
                self.memory.kept_nodes.note(_placed(spec, done))
            if not found:
                raise _no_valid_host(told, decision)
            return dict(decision.answer)
        raise ConcurrentUpdate("others took every host that was chosen; try again")

    def explain(
        self,
        document: Mapping[str, Any],
        *,
        overrides: Mapping[str, Any],
        view: View,
        alternates: bool = False,
        policy: str | None = None,
    ) -> Json:
        """Return how a request would fare (contract §4), under other settings where given.

        The same run as :meth:`select_destinations`; nothing is claimed. With ``policy`` it is
        under the policy of that name, whichever would be chosen. Where the view is of some hosts,
        ``verdicts`` has one on each of them.
        """
        whole = self._whole(document)
        spec, chosen, aggregates = self._under_policy(whole, policy, overrides)
        settings = chosen.policy.settings
        tools = self._tools(settings)
        if overrides:
            tools = self._tools_under(settings, overrides)
            uuids = spec.instance_uuids
            spec = replace(_spec_of(whole, tools.settings), instance_uuids=uuids)
            spec = chosen.confining(spec)
        group_support.check(spec, tools.plugins)
        spec = with_facts(spec, self.neutron, tools.settings)
        number = tools.settings.scheduler.max_attempts - 1 if alternates else 0
        with self.database.read() as connection:
            done = run(connection, spec, tools, number, aggregates)
            done = replace(done, policy=chosen.report)
            asked = None if view.hosts is None else asked_hosts(connection, view.hosts)
            view = asked.view(view) if asked else view
            told = funnel(connection, done, view, self.memory).as_json(view)
            judged = verdicts(connection, done, asked) if asked else ()
        self.database.tally.candidates = len(done.found.requests)
        hosts = done.choice.first.host_reports() if done.choice else ()
        return {
            "outcome": SELECTED if done.selections else NO_VALID_HOST,
            "policy": chosen.policy.name,
            "funnel": told,
            "hosts": hosts_as_json(hosts, view),
            "selections": _selections(done),
            **({"verdicts": [one.as_json() for one in judged]} if asked else {}),
        }

    def policies(self) -> list[Json]:
        """Return every policy: its options, where each is from, and the aggregates that name it."""
        return all_shown(*self._policies())

    def policy(self, name: str) -> Json:
        """Return one policy in the same way; raise :class:`NotFound` where there is none."""
        return one_shown(name, *self._policies())

    def _policies_in_use(self) -> frozenset[str]:
        """Return the policies that aggregates name; where nobody can tell, those seen last."""
        try:
            with self.database.read() as connection:
                self.memory.aggregates.current(connection)
        except Exception as failure:  # noqa: BLE001 - of a database of whatever state
            LOG.info("which policies are in use cannot be read: %s", failure)
        return self.memory.aggregates.policies_seen()

    def _policies(self) -> tuple[Policies, tuple[HostAggregate, ...]]:
        """Return the policies of this moment, and the aggregates that name one."""
        settings = self.live.settings()
        with self.database.read() as connection:
            tagged = self.memory.aggregates.current(connection).of_policies
        return policies_for(settings, self.clock), tagged

    def _whole(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the request with what it names looked up among what is stored."""
        if not stored.names_some(document):
            return document
        with self.database.read() as connection:
            return stored.whole(connection, document)

    def _under_policy(
        self,
        asked: Mapping[str, Any],
        named: str | None = None,
        overrides: Mapping[str, Any] | None = None,
    ) -> tuple[RequestSpec, Chosen, Aggregates | None]:
        """Return the request as its policy confines it, the policy, and aggregates if read.

        What the request comes to, PCI devices of aliases say, may depend on ``overrides``.
        """
        settings = self.live.settings()
        known = self._tools_under(settings, overrides).settings if overrides else settings
        spec = _with_uuids(_spec_of(asked, known))
        policies = policies_for(settings, self.clock)
        if not policies.imaginable and named is None:
            return spec, Chosen(policies.default), None
        with self.database.read() as connection:
            aggregates = self.memory.aggregates.current(connection)
        tagged = aggregates.of_policies
        if named is None:
            chosen = choose(spec, policies, self._tools(settings).plugins.selectors, tagged)
        else:
            try:
                chosen = under(named, policies, tagged)
            except ConfigurationError as wrong:
                raise Invalid(f"policy: {wrong.detail}") from None
        under_it = chosen.policy.settings
        if under_it is not settings and not overrides:
            spec = replace(_spec_of(asked, under_it), instance_uuids=spec.instance_uuids)
        return chosen.confining(spec), chosen, aggregates

    def _tools(self, settings: Settings) -> Tools:
        return Tools(
            settings=settings,
            plugins=plugins_for(settings, self.clock),
            memory=self.memory,
            random=self.random,
            policies=policies_for(self.live.settings(), self.clock),
        )

    def _tools_under(self, running: Settings, overrides: Mapping[str, Any]) -> Tools:
        """Return the tools of other settings; raises :class:`Invalid` where they cannot be."""
        settings = overridden(running, overrides)
        try:
            check_aliases(settings)
            return self._tools(settings)
        except ConfigurationError as wrong:
            raise Invalid(f"overrides: {wrong.detail}") from None

    def _write_down(
        self, spec: RequestSpec, done: Run, decision: Decision, *, claiming: bool
    ) -> None:
        """Record a decision, in one transaction with the claim if it is claimed.

        One that allocates nothing is answered though the database takes no record of it.
        """
        now = self.clock()
        if claiming:
            self._claim(spec, done, decision)
        else:
            try:
                self.database.write(partial(decisions.record, decision=decision, now=now))
            except Unavailable as failure:
                LOG.warning("decision %s is not recorded: %s", decision.uuid, failure.detail)
        self.retention.made_one(now)

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


def _placed(spec: RequestSpec, done: Run) -> Iterator[tuple[str, RequestSpec]]:
    """Yield for each instance the uuid of the node it was placed on, and its own request."""
    for uuid, (best, *_) in zip(spec.instance_uuids, done.selections, strict=False):
        yield best.compute_node_uuid, assigned(spec.for_instance(uuid), best.allocation_request)


def _selections(done: Run) -> list[list[Json]]:
    return [[selection.as_json() for selection in some] for some in done.selections]


def _no_valid_host(told: Funnel, decision: Decision) -> NoValidHost:
    """Return the error of a request that found no host."""
    obstacle = told.obstacle
    reason = f": {obstacle.reason}" if obstacle else ""
    extra = {"funnel": told.as_json(View()), "decision": decision.uuid}
    return NoValidHost(f"No valid host was found{reason}", extra=extra)
