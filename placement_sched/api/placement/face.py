"""The route table of the Placement API: its nouns and the document that describes them."""

from placement_sched.api.placement.routes import openapi
from placement_sched.api.placement.table import NOUNS

ROUTES = (*NOUNS, *openapi.ROUTES)
