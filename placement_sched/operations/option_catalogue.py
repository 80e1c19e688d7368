"""Every option an operator may write: ours, the plugins' and those of the libraries we stand on."""

from collections.abc import Iterable
from importlib.metadata import entry_points
from itertools import chain

from keystoneauth1 import loading as keystone_loading
from oslo_config import cfg

from placement_sched.errors import ConfigurationError
from placement_sched.remote.service import check_installed
from placement_sched.settings.options.ignored import WITHOUT_MEANING
from placement_sched.settings.options.notifications import oslo_messaging
from placement_sched.settings.opts import AliasedBoolOpt, Conf

#: The namespace of oslo.messaging.
MESSAGING = "oslo.messaging"
#: The ``oslo.config.opts`` entry points that make up a configuration file of this service.
NAMESPACES = (
    "placement_sched",
    "placement_sched.plugins",
    "placement_sched.neutron",
    "oslo.log",
    MESSAGING,
    "oslo.policy",
    "oslo.middleware.cors",
    "oslo.middleware.http_proxy_to_wsgi",
    "keystonemiddleware.auth_token",
)

#: The like of what installed packages announce. The sample has them; a check of files has loaded
#: the packages already, and reported those that are broken.
PACKAGES = "placement_sched.packages"
#: Groups whose ``auth_type`` names one of keystoneauth's plugins, and with it more options. nova
#: and others write the options of these groups into many groups of their files.
KEYSTONE_GROUPS = frozenset({"keystone_authtoken", "neutron"})
#: Groups of oslo.messaging, of today or former days, that it does not use here. They are not
#: misspelt names of those that it has.
MESSAGING_GROUPS = frozenset(
    {
        "oslo_messaging_amqp",
        "oslo_messaging_metrics",
        "oslo_messaging_tracing",
        "oslo_messaging_zmq",
    }
)


class Catalogue:
    """Options by group and name, the deprecated names too; ``-`` and ``_`` are the same.

    ``conf`` adds what it knows beyond the namespaces: options of third-party plugins. Without
    ``messaging``, the options of oslo.messaging can be added later.
    """

    def __init__(self, conf: Conf, *, messaging: bool = True) -> None:
        self.options: dict[str, dict[str, cfg.Opt]] = {}
        self.deprecated: dict[tuple[str, str], tuple[str, cfg.Opt]] = {}
        for namespace in NAMESPACES:
            if namespace != MESSAGING:
                self._add_namespace(namespace)
        for group, members in conf.registered.items():
            self._add(group, members.values())
        if messaging:
            self.add_messaging()

    def knows(self, group: str, name: str) -> bool:
        """Return whether there is such an option, by a name of today or an older one."""
        return self.find(group, name) is not None or (group, underscored(name)) in self.deprecated

    def add_messaging(self) -> None:
        """Add the options of oslo.messaging, which takes long to load and brings much along."""
        oslo_messaging()  # which is so kept from warning when its options are
        self._add_namespace(MESSAGING)

    def _add_namespace(self, namespace: str) -> None:
        for announced in entry_points(group="oslo.config.opts", name=namespace):
            for group, options in announced.load()():
                name = group.name if isinstance(group, cfg.OptGroup) else group or "DEFAULT"
                self._add(name, options)

    def _add(self, group: str, options: Iterable[cfg.Opt]) -> None:
        for option in options:
            self.options.setdefault(group, {})[option.dest] = option
            for old in option.deprecated_opts:
                name = underscored(old.name or option.name)
                if isinstance(option, AliasedBoolOpt):
                    self.options[group][name] = option
                else:
                    self.deprecated[old.group or group, name] = (group, option)

    def add_keystone_plugin(self, group: str, auth_type: str) -> None:
        """Add the options of a group's ``auth_type``; raises :class:`ConfigurationError` for it."""
        check_installed(group, auth_type)
        try:
            options = keystone_loading.get_auth_plugin_conf_options(auth_type)
        except Exception as broken:
            reason = " ".join(str(broken).split())
            raise ConfigurationError(f"[{group}] auth_type {auth_type}: {reason}") from broken
        self._add(group, options)

    def find(self, group: str, name: str) -> cfg.Opt | None:
        """Return the option of this present name, or None."""
        return self.options.get(group, {}).get(underscored(name))

    def knows_group(self, group: str) -> bool:
        """Return whether any option, by present or deprecated name, is of ``group``."""
        return group in self.options or any(
            group == other for other, _ in chain(self.deprecated, WITHOUT_MEANING)
        )

    def groups_with(self, name: str) -> list[str]:
        """Return the groups that have an option of this name, which is none of many services'."""
        return [
            group
            for group, options in self.options.items()
            if underscored(name) in options and group not in KEYSTONE_GROUPS
        ]


def underscored(name: str) -> str:
    """Return an option's name as Python sees it; files may write either."""
    return name.replace("-", "_")
