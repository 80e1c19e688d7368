"""``aggregate_instance_extra_specs:``: what AggregateInstanceExtraSpecsFilter heeds."""

from placement_sched.scheduler.extra_specs.validator import ExtraSpecValidator


def register() -> list[ExtraSpecValidator]:
    """Return the extra specs about the metadata of a host's aggregates."""
    return [
        ExtraSpecValidator(
            name="aggregate_instance_extra_specs:{key}",
            description="The value, or the comparison, that this key of the metadata must meet.",
            value={"type": str},
            parameters=[
                {"name": "key", "pattern": ".+", "description": "The key of the metadata."}
            ],
        )
    ]
