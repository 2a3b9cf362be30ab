"""What went wrong with a request, each with its exit status."""

from typing import Any

import click


class Trouble(click.ClickException):
    """No answer that helps; the message is whole, and safe to print. `status` is HTTP's, 0 without an answer.

    `code` is that of the problem, empty where the answer was no problem of ours.
    """

    status = 0
    code = ""

    @property
    def unseen(self) -> bool:
        """Whether the server says that the caller may not see it; a 404 of another program says nothing like it."""
        return self.status in (403, 404) and bool(self.code)

    def show(self, file: Any = None) -> None:
        click.echo(self.message, file=file, err=file is None)


class Refused(Trouble):
    """The server said no (4xx)."""

    exit_code = 1


class Busy(Refused):
    """Asked too often (429)."""


class Failed(Trouble):
    """The server failed or is out of reach."""

    exit_code = 3
