"""What a WSGI application is, as types (PEP 3333)."""

from collections.abc import Callable, Iterable
from typing import Any

StartResponse = Callable[..., Any]
WSGI = Callable[[dict[str, Any], StartResponse], Iterable[bytes]]
