"""Recorded decisions as they are asked for and shown, over HTTP and at the command line."""

from collections.abc import Callable, Collection, Iterator, Mapping

from placement_sched.db.transaction import Connection
from placement_sched.model.aggregates import DEFAULT_POLICY
from placement_sched.model.decision import Decision, DecisionSummary, DecisionsWanted
from placement_sched.model.document import Json
from placement_sched.model.names import suggested
from placement_sched.scheduler.policies.registry import Policies
from placement_sched.schemas import formats
from placement_sched.store import decisions
from placement_sched.store.compute import compute_nodes, flavors

#: What of the decisions wanted is taken as it is given.
_PLAIN = ("outcome", "kind", "project_id", "flavor", "host", "request_id", "global_request_id")
_TIMES = ("since", "until")


def decisions_wanted(asked: Mapping[str, str | None]) -> DecisionsWanted:
    """Return which decisions the parameters of a list ask for.

    Raises :class:`Invalid` naming the one that is not a uuid or a time.
    """
    policy, instance = asked.get("policy"), asked.get("instance")
    plain: Json = {name: asked.get(name) for name in _PLAIN}
    for name in _TIMES:
        if (time := asked.get(name)) is not None:
            plain[name] = formats.read(formats.moment, time, name)
    return DecisionsWanted(
        **plain,
        policy=None if policy is None else policy.lower(),  # as the names of sections are
        instance=None if instance is None else formats.read(formats.uuid, instance, "instance"),
    )


def unknown_names(
    connection: Connection, asked: Mapping[str, str], policies: Policies
) -> list[Json]:
    """Return what of a list's parameters names nothing that there is, nor any recorded decision.

    Each has the ``key`` of the parameter and a ``detail``, a sentence with the names that may be
    meant. Names of what was deleted are known as long as a decision has them; projects are free.
    """
    return list(_unknown(connection, asked, policies))


def _unknown(
    connection: Connection, asked: Mapping[str, str], policies: Policies
) -> Iterator[Json]:
    def of_flavors() -> Collection[str]:
        return [one.name for one in flavors.all_flavors(connection)]

    def of_policies() -> Collection[str]:
        return [DEFAULT_POLICY, *policies.names]

    def of_hosts() -> Collection[str]:
        return {host for host, _ in compute_nodes.names_by_uuid(connection).values()}

    def of_hosts_and_nodes() -> Collection[str]:
        return compute_nodes.all_names(connection)

    nouns: Mapping[str, tuple[str, str, Callable[[], Collection[str]]]] = {
        "flavor": ("flavor", "flavor", of_flavors),
        "policy": ("policy", "policy", of_policies),
        "host": ("host", "host", of_hosts),
        "refused": ("host", "host", of_hosts_and_nodes),
    }
    for key, (noun, column, known) in nouns.items():
        if (name := asked.get(key)) is None:
            continue
        recorded = decisions_wanted({column: name})
        if decisions.search(connection, recorded, limit=1):
            continue
        name = recorded.policy if key == "policy" and recorded.policy else name
        names = {*known(), *decisions.recent_names(connection, column)}
        if name not in names and not (key == "policy" and policies.usable(name)):
            detail = f"there is no {noun} {name!r}{suggested(noun, name, names)}"
            yield {"key": key, "detail": detail}


def shown(decision: Decision) -> Json:
    """Return a decision with its request, its funnel and what was chosen."""
    conditions = decision.conditions
    return summary_of(decision) | {
        "request": decision.request,
        "funnel": decision.funnel,
        "best": decision.best,
        "selections": decision.answer["selections"],
        "conditions": None if conditions is None else conditions.as_json(),
    }


def summary_of(decision: DecisionSummary) -> Json:
    """Return what a list shows of a decision."""
    ids, names = decision.request_ids, ("uuid", "outcome", "kind", "flavor", "project_id")
    return {name: getattr(decision, name) for name in (*names, "created_at", "policy")} | {
        "request_id": ids.request_id,
        "global_request_id": ids.global_request_id,
        "instances": [{"uuid": place.instance, "host": place.host} for place in decision.places],
    }
