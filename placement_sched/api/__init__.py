"""The HTTP faces: they parse, call the core and render; no rule lives here."""
