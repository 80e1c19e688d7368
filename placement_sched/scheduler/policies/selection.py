"""Which policy a request is under: what each selector found, and which of them decided."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from placement_sched.errors import ConfigurationError
from placement_sched.model.host_aggregate import DEFAULT_POLICY, HostAggregate
from placement_sched.model.policy_report import PolicyReport, SelectorReport
from placement_sched.model.spec import RequestSpec
from placement_sched.scheduler.policies.registry import Policies, Policy
from placement_sched.scheduler.policies.selectors import BasePolicySelector
from placement_sched.scheduler.stages import calling


@dataclass(frozen=True, slots=True)
class Chosen:
    """The policy of a request, the uuids of the aggregates it is confined to, and why.

    ``avoided`` are those of the aggregates that it stays out of. ``report`` is None where there
    are no policies.
    """

    policy: Policy
    confined: tuple[str, ...] = ()
    avoided: tuple[str, ...] = ()
    report: PolicyReport | None = None

    def confining(self, spec: RequestSpec) -> RequestSpec:
        """Return the request confined so, by the candidates query: it costs nothing per host."""
        destination = spec.destination
        if self.confined:
            destination = destination.requiring(self.confined)
        if self.avoided:
            destination = destination.forbidding(self.avoided)
        if destination is spec.destination or spec.is_rebuild:
            return spec
        return replace(spec, requested_destination=destination)


def choose(
    spec: RequestSpec,
    policies: Policies,
    selectors: Sequence[BasePolicySelector],
    aggregates: Iterable[HostAggregate],
) -> Chosen:
    """Return the policy of a request: that of the first selector whose matches are of one policy.

    ``aggregates`` are all that have a policy. Raises :class:`PluginFailed` naming a selector that
    raises.
    """
    tagged = tuple(aggregates)
    reports: list[SelectorReport] = []
    for selector in selectors:
        found, report = _ask(selector, spec, policies, tagged)
        reports.append(report)
        if found is not None:
            name = found.policy.name
            if name == DEFAULT_POLICY:
                return _default(policies, tagged, reports)
            return replace(found, report=PolicyReport(name=name, selectors=tuple(reports)))
    return _default(policies, tagged, reports)


def under(name: str, policies: Policies, aggregates: Iterable[HostAggregate]) -> Chosen:
    """Return the policy of this name as if a selector had chosen it, with all its aggregates.

    Raises :class:`ConfigurationError` where there is no such policy.
    """
    tagged = tuple(aggregates)
    policy = policies.get(name)
    if policy.name == DEFAULT_POLICY:
        return _default(policies, tagged, ())
    confined = tuple(each.uuid for each in tagged if each.policy == policy.name)
    return Chosen(policy, confined, report=PolicyReport(name=policy.name))


def _default(
    policies: Policies, tagged: Sequence[HostAggregate], reports: Sequence[SelectorReport]
) -> Chosen:
    policy = policies.default
    avoids = policy.settings.scheduler.default_policy_avoids_policy_aggregates
    return Chosen(
        policy,
        avoided=tuple(each.uuid for each in tagged if each.policy != policy.name) if avoids else (),
        report=PolicyReport(name=DEFAULT_POLICY, selectors=tuple(reports)),
    )


def _ask(
    selector: BasePolicySelector,
    spec: RequestSpec,
    policies: Policies,
    tagged: Sequence[HostAggregate],
) -> tuple[Chosen | None, SelectorReport]:
    """Return what a selector chooses, if anything, and what is told of it."""
    name = selector.name or type(selector).__name__
    with calling(selector):
        asked = selector.asked(spec)
        if asked is None:
            return None, SelectorReport(name=name, outcome="the request says nothing of it")
        if selector.asks_for_default(spec):
            report = SelectorReport(name=name, asked=asked, outcome="chosen")
            return Chosen(policies.default), report
        matched = [each for each in tagged if selector.matches(spec, each)]
    told = SelectorReport(
        name=name,
        asked=asked,
        matched=tuple((each.name, each.uuid, each.policy or "") for each in matched),
        outcome="chosen",
    )
    names = sorted({each.policy or "" for each in matched})
    if not names:
        return None, replace(told, outcome="no aggregate with a policy matches")
    if len(names) > 1:
        return None, replace(told, outcome=f"several policies match: {', '.join(names)}")
    try:
        policy = policies.get(names[0])
    except ConfigurationError as wrong:
        return None, replace(told, outcome=f"it cannot be used: {wrong.detail}")
    return Chosen(policy, tuple(each.uuid for each in matched)), told
