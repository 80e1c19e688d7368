"""required_aggregates_by_trait: send those who require a trait where it is reserved for them."""

from placement_sched.config import Settings
from placement_sched.model.spec import RequestSpec
from placement_sched.model.verdict import Refusal
from placement_sched.scheduler.request_filters import (
    BaseRequestFilter,
    Outcome,
    World,
    confined,
)
from placement_sched.scheduler.tagged_aggregates import (
    OPTION,
    REQUIRE,
    policy,
    required_traits,
    tagged_with,
)


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
    options = (OPTION,)

    def enabled(self, settings: Settings) -> bool:
        """Return whether ``[scheduler] required_aggregates_by_trait`` is ``require``."""
        return policy(settings) == REQUIRE

    def apply(self, spec: RequestSpec, world: World) -> Outcome | Refusal | None:
        """Return the request confined to aggregates tagged with each of its traits, if any are."""
        tagged = tagged_with(required_traits(spec), world.host_aggregates())
        forbidden = spec.destination.forbidden
        offered = {
            trait: [uuid for uuid in uuids if uuid not in forbidden]
            for trait, uuids in tagged.items()
        }
        for trait, uuids in offered.items():
            if not uuids:
                return Refusal(
                    f"every aggregate with trait:{trait}=required is forbidden to the request",
                    asked=trait,
                )
            spec = confined(spec, uuids).spec
        return Outcome(spec, {"aggregates_by_trait": offered}) if offered else None
