"""required_aggregates_by_trait: send those who require a trait where it is reserved for them."""

from placement_sched.config.settings import Settings
from placement_sched.model.request_spec import RequestSpec
from placement_sched.model.verdict import Refusal
from placement_sched.scheduler import tagged_aggregates
from placement_sched.scheduler.request_filters import BaseRequestFilter, Outcome, World, confined


class RequiredAggregatesByTrait(BaseRequestFilter):
    """Sends requests that require a trait to the aggregates that are tagged with it.

    The other half of forbidden_aggregates, which keeps everybody else out of them. For each trait X
    that the request requires (by flavor, image, port or accelerator, in any group) and that some
    aggregate has as ``trait:X=required`` in its metadata, the host must be in one of these
    aggregates: beside it, a host that merely has the trait does not do. Aggregates that are
    forbidden to the request already are not offered; where no other is tagged, it finds no host. A
    trait with which no aggregate is tagged asks for none.

    Only with ``[scheduler] required_aggregates_by_trait = require``. With ``prefer`` nothing is
    asked, and RequiredAggregatesByTraitWeigher puts hosts of these aggregates first. nova has no
    such filter. Off by default.
    """

    name = "required_aggregates_by_trait"
    options = (tagged_aggregates.OPTION,)

    def enabled(self, settings: Settings) -> bool:
        """Return whether ``[scheduler] required_aggregates_by_trait`` is ``require``."""
        return tagged_aggregates.policy(settings) == tagged_aggregates.REQUIRE

    def apply(self, spec: RequestSpec, world: World) -> Outcome | Refusal | None:
        """Return the request confined to aggregates tagged with each of its traits, if any are."""
        required = tagged_aggregates.required_traits(spec)
        tagged = tagged_aggregates.tagged_with(required, world.host_aggregates())
        forbidden, offered = spec.destination.forbidden, {}
        for trait, every in tagged.items():
            offered[trait] = uuids = [uuid for uuid in every if uuid not in forbidden]
            if not uuids:
                reason = f"every aggregate with trait:{trait}=required is forbidden to the request"
                return Refusal(reason, asked=trait)
            spec = confined(spec, uuids).spec
        return Outcome(spec, {"aggregates_by_trait": offered}) if offered else None
