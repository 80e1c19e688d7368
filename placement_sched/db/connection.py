"""The connection type under a name of ours, for floors that open transactions but write no SQL."""

from sqlalchemy import Connection

__all__ = ["Connection"]
