"""What went wrong with a request, each with its exit status."""

from typing import Any

import click


class Trouble(click.ClickException):
    """No answer that helps; the message is whole, and safe to print. `status` is HTTP's, 0 without an answer."""

    status = 0

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
