"""Settings: every option, by oslo.config, read through a frozen view."""

from placement_sched.settings.view import Settings

__all__ = ["Settings"]
