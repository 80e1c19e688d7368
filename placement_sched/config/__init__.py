"""Options: oslo.config, one module per group, read through a frozen view.

``CONF`` is the process's oslo.config object, with nova's and placement's option names; plugins
brought from nova import it in place of ``nova.conf``. Our own code receives
:class:`~placement_sched.config.settings.Settings` instead.
"""

from placement_sched.config.process import CONF
from placement_sched.config.settings import Settings

__all__ = ["CONF", "Settings"]
