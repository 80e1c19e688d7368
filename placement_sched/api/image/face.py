"""The route table of the image API, by noun."""

from placement_sched.api.image.routes import (
    image_data,
    image_members,
    image_schemas,
    image_tags,
    images,
    import_methods,
    versions,
)

ROUTES = (
    *versions.ROUTES,
    *images.ROUTES,
    *image_data.ROUTES,
    *image_tags.ROUTES,
    *image_members.ROUTES,
    *image_schemas.ROUTES,
    *import_methods.ROUTES,
)
