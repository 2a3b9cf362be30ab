"""Which operating system account runs the embedded server, and what that account can reach.

PostgreSQL refuses to run as root, so root hands it to a system account made for it. Nothing here widens the
mode of a directory that exists: what the account cannot reach is refused by name.
"""

import os
import pwd
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NAME = "better-compute"
ENVIRONMENT = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C", "TZ": "UTC"}


class EmbeddedError(Exception):
    """The embedded server cannot run; the message says what to do about it."""


@dataclass(frozen=True)
class Account:
    """The account of the server; `switched` when it is not the one this program runs as."""

    name: str
    uid: int
    gid: int
    switched: bool

    def identity(self) -> dict[str, Any]:
        """Arguments for subprocess that make a child this account, without any group of root."""
        if not self.switched:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


def for_server() -> Account:
    """The account to run the server as: ours, or for root the system account, made when it is missing."""
    if os.geteuid() != 0:
        return Account(_own_name(), os.geteuid(), os.getegid(), switched=False)
    entry = _lookup() or _create()
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, switched=True)


def run(account: Account, *argv: str | Path, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Run a short program as the account, in an environment that no PG* variable of ours reaches."""
    return subprocess.run(
        [str(part) for part in argv],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=ENVIRONMENT,
        cwd="/",
        timeout=timeout,
        check=False,
        **account.identity(),
    )


def barrier(account: Account, directory: Path) -> Path | None:
    """The first directory on the way to `directory` that the account cannot enter, or None.

    Asked of the kernel as that account, because mode bits alone know nothing of ACLs and mounts.
    """
    if _enters(account, directory):
        return None
    way = [*reversed(directory.parents), directory]
    return next((step for step in way if not _enters(account, step)), directory)


def _enters(account: Account, directory: Path) -> bool:
    if not account.switched:
        return os.access(directory, os.X_OK)
    return run(account, "test", "-x", directory).returncode == 0


def _own_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _lookup() -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(NAME)
    except KeyError:
        return None


def _create() -> pwd.struct_passwd:
    useradd = shutil.which("useradd", path=ENVIRONMENT["PATH"]) if sys.platform == "linux" else None
    if useradd is None:
        raise EmbeddedError(
            f"PostgreSQL does not run as root, and this system has no useradd: create a system account named"
            f" {NAME!r}, or start as an ordinary user, or set BETTER_COMPUTE_DATABASE_URL"
        )
    home = ("--no-create-home", "--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin")
    made = subprocess.run(
        [useradd, "--system", "--user-group", *home, NAME],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    entry = _lookup()  # also when another process was first and useradd refused
    if entry is None:
        raise EmbeddedError(f"cannot create the system account {NAME!r}: {made.stderr.strip()}; create it by hand")
    return entry
