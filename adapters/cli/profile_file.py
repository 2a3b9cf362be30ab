"""The file of profiles: servers and tokens under names, for the eyes of its owner alone.

current = "demo"

[profiles.demo]
server = "http://127.0.0.1:8080"
token = "biam_key_…"
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from stat import S_ISREG
from typing import Any, Final, NamedTuple

import click

from adapters import whole_file
from adapters.cli import tables

ENVIRONMENT: Final = "BETTER_COMPUTE_CONFIG"
OTHERS: Final = 0o077


class ProfileError(click.ClickException):
    """The file, or a name that it does not have, stands in the way; nothing was asked or changed."""

    exit_code = 2


class Profile(NamedTuple):
    """What a name stands for."""

    server: str | None
    token: str | None


class Profiles(NamedTuple):
    """All of the file; `current` is the one used where none is named."""

    current: str | None
    by_name: Mapping[str, Profile]


NONE: Final = Profiles(None, {})


def path() -> Path:
    """Where the file is, or would be."""
    if named := os.environ.get(ENVIRONMENT):
        return Path(named)
    home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(home).expanduser() / "better-compute" / "config.toml"


def read() -> Profiles:
    """What the file says; no file is no profiles. ProfileError where others could read its tokens too."""
    data = _checked(path())
    return NONE if data is None else _parsed(data, path())


def named(name: str, profiles: Profiles) -> Profile:
    """One of them; ProfileError names those that there are."""
    try:
        return profiles.by_name[name]
    except KeyError:
        there = ", ".join(sorted(profiles.by_name)) or "none: `better-compute profile set` makes one"
        raise ProfileError(f"no profile {tables.printable(name)!r}; there are {there}") from None


def change(edit: Callable[[Any], None]) -> None:
    """Edit the document in place, one at a time; its layout and comments stay as people wrote them."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    file = path()
    with _alone(file.parent):
        data = _checked(file)
        try:
            document = tomlkit.parse((data or b"").decode())
            edit(document)
            text = tomlkit.dumps(document).encode()
        except (TOMLKitError, UnicodeDecodeError) as mistake:
            raise ProfileError(f"{file} is not TOML: {mistake}") from mistake
        _parsed(text, file)
        _replace(file, text)


def _checked(file: Path) -> bytes | None:
    try:
        with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK), "rb") as opened:  # a pipe would wait for its writer
            mode = (stat := os.fstat(opened.fileno())).st_mode
            if not S_ISREG(mode):
                raise ProfileError(f"{file} is no file: name one of your own in {ENVIRONMENT}")
            if mode & OTHERS:
                raise ProfileError(f"{file} holds tokens and others can read or write it: chmod 600 {file}")
            if stat.st_uid not in (0, os.geteuid()):
                raise ProfileError(f"{file} is another user's: name a file of your own in {ENVIRONMENT}")
            return opened.read()
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise ProfileError(f"cannot read {file}: {problem.strerror}") from None


def _parsed(data: bytes, file: Path) -> Profiles:
    import tomllib

    try:
        document = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as mistake:
        raise ProfileError(f"{file} is not TOML: {mistake}") from None
    current, tables_ = document.pop("current", None), document.pop("profiles", {})
    if document:
        raise ProfileError(f"{file}: unknown {', '.join(map(repr, document))}; it has current and [profiles.NAME]")
    if not isinstance(current, str | None) or not isinstance(tables_, dict):
        raise ProfileError(f"{file}: current is a name, profiles are tables [profiles.NAME]")
    return Profiles(current, {name: _profile(name, entry, file) for name, entry in tables_.items()})


def _profile(name: str, entry: Any, file: Path) -> Profile:
    if not isinstance(entry, dict) or any(key not in Profile._fields for key in entry):
        raise ProfileError(f"{file}: profile {name!r} has something else than server and token")
    if not all(isinstance(value, str) for value in entry.values()):
        raise ProfileError(f"{file}: server and token of profile {name!r} are texts")
    return Profile(entry.get("server"), entry.get("token"))


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """The directory, made if it is missing, with no other change of its file meanwhile."""
    with ExitStack() as held:
        try:
            directory.parent.mkdir(parents=True, exist_ok=True)
            directory.mkdir(mode=0o700, exist_ok=True)
            held.enter_context(whole_file.alone(directory))
        except OSError as problem:
            raise ProfileError(f"cannot open {directory}: {problem.strerror}") from None
        yield


def _replace(file: Path, data: bytes) -> None:
    """A link stays a link."""
    try:
        whole_file.replace(file.resolve(), data)
    except OSError as problem:
        raise ProfileError(f"cannot write {file}: {problem.strerror}; it is as it was") from None
