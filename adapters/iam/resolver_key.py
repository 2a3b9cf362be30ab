"""The key with which a Better IAM host asks what things are (api.md §3); no identity has it."""

import hmac
import re
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Final

_KEY: Final = re.compile(r"[A-Za-z0-9._~+/-]{32,512}=*")


class ResolverKeyError(Exception):
    """The file holds no key that could be used; says why, and never what it holds."""


def read(path: Path) -> Callable[[str], bool]:
    """Whoever brings the key of this file is known; white space around it is none of it."""
    try:
        key = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else "it is not text"
        raise ResolverKeyError(f"the resolver's key cannot be read from {path}: {why}") from problem
    if not _KEY.fullmatch(key):
        raise ResolverKeyError(
            f"{path} holds no resolver's key: at least 32 characters of A-Z a-z 0-9 . _ ~ + / - on one line; "
            "`openssl rand -hex 32` makes one"
        )
    return knows(key)


def knows(key: str) -> Callable[[str], bool]:
    """Compares digests, in constant time: the time taken tells neither the key nor its length."""
    mine = sha256(key.encode()).digest()
    return lambda token: hmac.compare_digest(mine, sha256(token.encode()).digest())
