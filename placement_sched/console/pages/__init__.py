"""Pages of the console.

Each module has ``VIEWS``: its views by path below ``/console``.
"""
