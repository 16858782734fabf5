"""Launch files from a Deployment: Jinja templates in a sandbox, every value quoted for where it lands."""

from advisor.render.context import is_outside as is_outside
from advisor.render.files import LaunchFile as LaunchFile
from advisor.render.files import list_target_names as list_target_names
from advisor.render.files import list_targets as list_targets
from advisor.render.files import make_readme as make_readme
from advisor.render.files import render_client as render_client
from advisor.render.files import render_command as render_command
from advisor.render.files import render_every as render_every
from advisor.render.files import render_files as render_files
from advisor.render.files import render_together as render_together

__all__ = [
    "LaunchFile",
    "is_outside",
    "list_target_names",
    "list_targets",
    "make_readme",
    "render_client",
    "render_command",
    "render_every",
    "render_files",
    "render_together",
]
