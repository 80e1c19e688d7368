"""What mod_wsgi loads: its processes have no environment that could name the configuration."""

import os

os.environ.setdefault("PLACEMENT_SCHED_CONFIG", "/etc/placement_sched/placement_sched.conf")

from placement_sched.wsgi import application

__all__ = ["application"]
