"""An agent that acts for acme's administrator, within a boundary (iam.md §14)."""

from typing import Final

from adapters.iam import tokens
from given import Client, Plane

_TOKEN: Final = "token-of-the-agent"
ANYTHING: Final = """
[[boundaries.errand.statements]]
effect = "allow"
actions = ["*"]
resources = ["*"]
"""


def agent(plane: Plane, boundary: str = ANYTHING) -> Client:
    """`boundary` are the statements of `boundaries.errand` in an access file."""
    robot = f"""
[boundaries.errand]
version = 1
{boundary}
[identities.robot]
tenant = "acme"
kind = "agent"
[delegations.dlg_1]
person = "acme"
agent = "robot"
scope = ["errand"]
token_sha256 = ["{tokens.digest(_TOKEN)}"]
"""
    plane.access.write_text(plane.access.read_text() + robot)
    assert plane.wired.authorizer.reload()
    return Client(plane.app, _TOKEN)
