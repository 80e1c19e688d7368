"""An instance as recorded: where it is, whose it is, and what it is made of."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One recorded instance; flavor and image are the objects given when it was recorded."""

    uuid: str
    host: str | None
    node: str | None
    project_id: str | None
    user_id: str | None
    display_name: str
    vm_state: str | None
    task_state: str | None
    flavor: Mapping[str, Any] | None
    image: Mapping[str, Any] | None
    server_group: str | None
    decision_uuid: str | None
    created_at: datetime | None = None
    updated_at: datetime | None = None
