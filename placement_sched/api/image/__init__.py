"""Image metadata, as glance serves it."""
