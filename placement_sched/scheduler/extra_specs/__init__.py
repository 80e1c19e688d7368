"""Extra specs: which a flavor may have, and with what values.

An extra spec of a known namespace (``hw:``) must be known itself; any other is the operator's own.
What is known comes from validators: those of the modules here, and those that installed packages
announce under the entry point group ``placement_sched.extra_spec_validators``, each naming a module
whose ``register()`` returns a list of :class:`ExtraSpecValidator`.
"""

from placement_sched.scheduler.extra_specs.validator import (
    ExtraSpecValidator,
    all_validators,
    check,
)

__all__ = ["ExtraSpecValidator", "all_validators", "check"]
