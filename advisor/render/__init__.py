"""Launch files from a Deployment: Jinja templates in a sandbox, every value quoted for where it lands."""

from advisor.render.context import is_outside as is_outside
from advisor.render.every_target import render_every as render_every
from advisor.render.files import File as File
from advisor.render.files import command as command
from advisor.render.files import names as names
from advisor.render.files import readme as readme
from advisor.render.files import render as render
from advisor.render.files import render_client as render_client
from advisor.render.files import render_together as render_together
from advisor.render.files import targets as targets

__all__ = [
    "File",
    "command",
    "is_outside",
    "names",
    "readme",
    "render",
    "render_client",
    "render_every",
    "render_together",
    "targets",
]
