"""Extra specs: which a flavor may have, and with what values.

A key is known by its name or not: one of a namespace that is known (``hw:``) must be known itself,
any other is the operator's own. What is known is told by validators, one module per namespace
here, and by those that installed packages announce under the entry point group
``placement_sched.extra_spec_validators``: each names a module whose ``register()`` returns a list
of :class:`ExtraSpecValidator`.
"""

from placement_sched.scheduler.extra_specs.known import all_validators, check
from placement_sched.scheduler.extra_specs.validator import ExtraSpecValidator

__all__ = ["ExtraSpecValidator", "all_validators", "check"]
