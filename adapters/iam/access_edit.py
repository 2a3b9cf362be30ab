"""Changes to an access file by the program: tokens come and go, comments and layout stay as people wrote them.

A changed file is checked as a whole before it takes the old one's place, in one step and with the old one's mode.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import tomlkit
from msgspec import Struct
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Array

from adapters import whole_file
from adapters.iam import access_file
from adapters.iam.access_file import AccessFile

SHOWN = 16
"""Hex digits of a token's hash that name it, here and in session ids."""
_LEAST = 4
"""Hex digits that a prefix must have: a slip of the finger is to revoke nothing."""


class EditError(Exception):
    """What stands in the way of a change; the file is as it was."""


class Held(Struct, frozen=True, rename="camel"):
    """One token of the file: who acts with it, through which delegation, and the hash that it is kept as."""

    identity: str
    tenant: str
    kind: str
    sha256: str
    delegation: str | None = None

    @property
    def shown(self) -> dict[str, str | None]:
        """For people and programs: the session id is what the log calls it."""
        session = f"{self.kind}:{self.sha256[:SHOWN]}"
        return {
            "identity": self.identity,
            "tenant": self.tenant,
            "kind": self.kind,
            "delegation": self.delegation,
            "sha256": self.sha256[:SHOWN],
            "sessionId": session,
        }


def read(path: Path, actions: Collection[str] | None = None) -> AccessFile:
    """The file, whole and valid; EditError says what is wrong with it."""
    try:
        return access_file.parse(path.read_bytes(), actions)
    except OSError as problem:
        raise EditError(f"cannot read {path}: {problem.strerror}") from problem
    except access_file.AccessFileError as mistake:
        raise EditError(f"{path}: {mistake}") from mistake


def held(file: AccessFile) -> tuple[Held, ...]:
    """Every token of a file, in the file's order; of a delegation's the person is the identity."""
    own = [
        Held(name, entry.tenant, "api-key", value)
        for name, entry in file.identities.items()
        for value in entry.token_sha256
    ]
    delegated = [
        Held(entry.person, file.identities[entry.person].tenant, "delegated", value, name)
        for name, entry in file.delegations.items()
        for value in entry.token_sha256
    ]
    return (*own, *delegated)


def add(path: Path, section: str, name: str, digest: str, actions: Collection[str] | None = None) -> None:
    """Give an identity or a delegation one more token: its hash goes into its table of the file."""
    with _changing(path, actions) as (file, document, changes):
        known = getattr(file, section)
        if name not in known:
            noun = {"identities": "identity", "delegations": "delegation"}[section]
            choice = f"there are {', '.join(sorted(known))}" if known else "there is none"
            raise EditError(f"{path} has no {noun} {name!r}; {choice}")
        entry = document[section][name]
        if "token_sha256" not in entry:
            entry["token_sha256"] = tomlkit.array()
        entry["token_sha256"].append(digest)
        changes.add(digest)


def revoke(
    path: Path, chosen: Callable[[AccessFile], tuple[Held, ...]], actions: Collection[str] | None = None
) -> tuple[Held, ...]:
    """Take tokens out of the file: those that `chosen` picks from it as it is now; they are returned."""
    with _changing(path, actions) as (file, document, changes):
        tokens = chosen(file)
        gone = {token.sha256 for token in tokens}
        changes |= gone
        for section in ("identities", "delegations"):
            for entry in document.get(section, {}).values():
                _without(entry.get("token_sha256"), gone)
    return tokens


def by_prefix(file: AccessFile, prefix: str) -> Held:
    """The one token whose hash begins so; a session id of the log does as well."""
    digits = prefix.rpartition(":")[2].lower()
    if len(digits) < _LEAST:
        raise EditError(f"give at least {_LEAST} digits of the token's hash; `better-compute token list` shows them")
    found = [token for token in held(file) if token.sha256.startswith(digits)]
    if not found:
        raise EditError(f"no token's hash begins with {digits}")
    if len(found) > 1:
        several = ", ".join(f"{token.sha256[:SHOWN]} of {token.identity}" for token in found)
        raise EditError(f"{digits} begins {len(found)} hashes: {several}; give more digits")
    return found[0]


def of_identity(file: AccessFile, name: str) -> tuple[Held, ...]:
    """Everything that acts as an identity: its own tokens, and those of delegations from it or to it."""
    if name not in file.identities:
        raise EditError(f"there is no identity {name!r}; there are {', '.join(sorted(file.identities))}")
    mine = {which for which, entry in file.delegations.items() if name in (entry.person, entry.agent)}
    found = tuple(t for t in held(file) if t.delegation in mine or (t.delegation is None and t.identity == name))
    if not found:
        raise EditError(f"{name} has no token")
    return found


def _without(hashes: Array | None, gone: Collection[str]) -> None:
    for index in reversed(range(len(hashes) if hashes is not None else 0)):
        assert hashes is not None
        if hashes[index] in gone:
            del hashes[index]


@contextmanager
def _changing(path: Path, actions: Collection[str] | None) -> Iterator[tuple[AccessFile, Any, set[str]]]:
    """The file, its document to be changed, and the hashes that this is to add or take; one change at a time.

    What the changed document says is read back: nothing else may differ.
    """
    path, changes = path.resolve(), set[str]()
    with _alone(path.parent):
        file = read(path, actions)
        try:
            document = tomlkit.parse(path.read_bytes().decode("utf-8"))
            yield file, document, changes
            data = tomlkit.dumps(document).encode("utf-8")
            after = access_file.parse(data, actions)
        except (TOMLKitError, access_file.AccessFileError) as problem:
            raise EditError(f"{path} is laid out in a way that cannot be changed here: {problem}") from problem
        if _hashes(file) ^ _hashes(after) != changes:
            raise EditError(f"{path} is laid out in a way that cannot be changed here; change it by hand")
        _replace(path, data)


def _hashes(file: AccessFile) -> set[str]:
    return {token.sha256 for token in held(file)}


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    with ExitStack() as held:
        try:
            held.enter_context(whole_file.alone(directory))
        except OSError as problem:
            raise EditError(f"cannot open {directory}: {problem.strerror}") from problem
        yield


def _replace(path: Path, data: bytes) -> None:
    try:
        whole_file.replace(path, data)
    except OSError as problem:
        raise EditError(f"cannot write {path}: {problem.strerror}; it is as it was") from problem
