"""Errors as HTML or plain text, for clients that do not accept JSON."""

from collections.abc import Sequence
from html import escape

from placement_sched.api.call import Answer

HTML = "text/html"
TEXT = "text/plain"


def page(kind: str, status: int, title: str, paragraphs: Sequence[str]) -> Answer:
    """Return an error as ``kind``, which is :data:`HTML` or :data:`TEXT`.

    The heading is the status and its title.
    """
    heading = f"{status} {title}"
    if kind == HTML:
        content = _html(heading, paragraphs)
    else:
        content = "\n\n".join((heading, *paragraphs)) + "\n"
    return Answer(
        status=status,
        body=content.encode(),
        headers={"Content-Type": f"{kind}; charset=UTF-8"},
    )


def _html(heading: str, paragraphs: Sequence[str]) -> str:
    lines = "<br /><br />\n  ".join(escape(one, quote=False) for one in paragraphs)
    return (
        f"<html>\n <head>\n  <title>{heading}</title>\n </head>\n"
        f" <body>\n  <h1>{heading}</h1>\n  {lines}<br /><br />\n </body>\n</html>\n"
    )
