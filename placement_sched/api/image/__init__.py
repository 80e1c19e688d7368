"""The image API: image metadata in glance's format."""
