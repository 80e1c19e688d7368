"""What plugins import in place of ``nova.conf``.

``CONF`` is the process's oslo.config object, with nova's and placement's option names. The code of
this package receives :class:`~placement_sched.settings.Settings` instead.
"""

from placement_sched.settings import Settings
from placement_sched.settings.conf import CONF

__all__ = ["CONF", "Settings"]
