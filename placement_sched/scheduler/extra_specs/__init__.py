# SPDX-License-Identifier: Apache-2.0
"""Validation of the extra specs of flavors.

An extra spec in a namespace with validators (``hw:``) must have a validator itself. All others are
free. Validators are registered by the modules of this package, and by installed packages under the
entry point group ``placement_sched.extra_spec_validators``: an entry point names a module whose
``register()`` returns a list of :class:`ExtraSpecValidator`.
"""

from placement_sched.scheduler.extra_specs.validator import (
    ExtraSpecValidator,
    all_validators,
    check,
)

__all__ = ["ExtraSpecValidator", "all_validators", "check"]
