"""``resources:``, ``trait:`` and ``group_policy``: what is asked of placement."""

import os_resource_classes
import os_traits

from placement_sched.scheduler.extra_specs.validator import ExtraSpecValidator

_GROUP = {
    "name": "group",
    "pattern": "[a-zA-Z0-9_-]{0,64}",
    "description": "The suffix of the request group; empty for the one without.",
}
_CUSTOM = "CUSTOM_[A-Z0-9_]+"


def register() -> list[ExtraSpecValidator]:
    """Return the extra specs that become part of the question for candidates."""
    classes = "|".join([*os_resource_classes.STANDARDS, _CUSTOM])
    traits = "|".join([*os_traits.get_traits(), _CUSTOM])
    return [
        ExtraSpecValidator(
            name="resources{group}:{class}",
            description="How much of this class is wanted, in place of what the flavor says.",
            value={"type": int},
            parameters=[
                _GROUP,
                {"name": "class", "pattern": classes, "description": "A resource class."},
            ],
        ),
        ExtraSpecValidator(
            name="trait{group}:{trait}",
            description="Whether a provider must have this trait, or must not.",
            value={"type": str, "enum": ("required", "forbidden")},
            parameters=[_GROUP, {"name": "trait", "pattern": traits, "description": "A trait."}],
        ),
        ExtraSpecValidator(
            name="group_policy",
            description="Whether groups with a suffix may be served by the same provider.",
            value={"type": str, "enum": ("isolate", "none")},
        ),
    ]
