"""Where the value of an option comes from: which layer, and which line where it is written."""

from dataclasses import dataclass

from oslo_config import cfg

from placement_sched.config.lines import Place, in_effect
from placement_sched.config.settings import Settings, names_of, registered_options

DEFAULT = "default"
CONFIGURATION = "configuration"
ENVIRONMENT = "environment"
#: Laid over the configuration by something else, which is told as the place.
LAID_OVER = "laid over"


@dataclass(frozen=True, slots=True)
class Origin:
    """The layer that a value is of, and the place in it where there is one to name."""

    source: str
    place: str | None = None


def origin_of(settings: Settings, group: str, name: str) -> Origin:
    """Return where the value of an option in these settings comes from."""
    laid_over = settings.laid_over(group, name)
    if laid_over is not None:
        return Origin(LAID_OVER, laid_over)
    found = settings.conf.get_location(name, None if group == "DEFAULT" else group)
    if found is None or not found.location.is_user_controlled:
        return Origin(DEFAULT)
    if found.location is cfg.Locations.environment:
        return Origin(ENVIRONMENT, str(found.detail))
    place = place_in_files(settings, group, name)
    # What a command line says has no line.
    return Origin(CONFIGURATION, None if place is None else str(place))


def place_in_files(settings: Settings, group: str, name: str) -> Place | None:
    """Return the line of the files that sets an option, by today's name or an older one of it."""
    option = registered_options(settings.conf)[group][name]
    found = in_effect(settings.sections, names_of(option, group, name))
    return None if found is None else found.place
