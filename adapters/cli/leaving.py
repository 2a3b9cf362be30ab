"""The ways out of a command line: each has its status and at most a line, also where nobody reads what it says."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import click

GIVEN_UP: Final = 130
"""As shells have it of a program that Ctrl-C ended."""

NOBODY_READS: Final = 141
"""As shells have it of a program whose reader, such as `head`, has enough."""

_OF_WRITING: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EPIPE, errno.EBADF})


class GivenUp(click.ClickException):
    """Ctrl-C, or the end of what is read where something was asked."""

    exit_code = GIVEN_UP

    def __init__(self) -> None:
        super().__init__("Aborted!")

    def show(self, file: Any = None) -> None:
        click.echo(f"\n{self.message}", file=file, err=file is None)


class Unwritten(click.ClickException):
    """Standard output does not take the answer; what was asked for may be done all the same."""

    exit_code = 3

    def __init__(self, failure: OSError) -> None:
        super().__init__(f"cannot write the answer: {failure.strerror}")

    def show(self, file: Any = None) -> None:
        """What is still in the buffer must not fail once more at the very end."""
        with suppress(OSError, AttributeError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        self.tell(file)

    def tell(self, file: Any) -> None:
        click.echo(self.message, file=file, err=file is None)


class NobodyReads(Unwritten):
    """The reader has gone, which is no trouble of anybody's."""

    exit_code = NOBODY_READS

    def tell(self, file: Any) -> None:
        pass


@contextmanager
def told() -> Iterator[None]:
    """What click would make a refusal or a traceback of has a status of its own."""
    try:
        yield
    except (KeyboardInterrupt, EOFError, click.Abort):
        raise GivenUp from None
    except OSError as failure:
        if failure.errno not in _OF_WRITING or failure.filename is not None:
            raise
        raise unwritten(failure) from None


def unwritten(failure: OSError) -> click.ClickException:
    return NobodyReads(failure) if failure.errno == errno.EPIPE else Unwritten(failure)


def prepare() -> None:
    """A stream that is closed is as /dev/null; a letter that the terminal's encoding lacks is escaped."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
