"""The pages of the console, a module each: what is asked of the APIs, and what templates show.

Each module has ``VIEWS``: its views by path below ``/console``.
"""
