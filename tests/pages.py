"""The commands of a page, and what they should print: read from its Markdown, run in one bash, compared loosely.

docs/development.md says how a page is written.
"""

import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

PAGE_S: Final = 300
END_S: Final = 30

_FENCE = re.compile(r"^( *)```(?P<lang>\w*)(?P<more>[^\n]*)\n(?P<text>.*?)^\1```$", re.DOTALL | re.MULTILINE)
_MARK = re.compile(r"<!-- (?P<name>server|in|exit|not run): (?P<value>(?:(?!-->).)+?) -->\s*\Z", re.DOTALL)
_HEAD = re.compile(r"^<!-- (?P<name>server|in): (?P<value>\w+) -->$", re.MULTILINE)
_TITLE = re.compile(r'title="([^"]+)"')
_WILD = (
    (re.compile(r"\b[a-z]+_[0-9a-z]{20,}\b"), "ID"),
    (re.compile(r"\bbi\w{2}_\w{3}_[\w-]{20,}"), "TOKEN"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f-]{27}\b"), "UUID"),
    (re.compile(r"\b(?=[a-f]*\d)[0-9a-f]{7,64}\b"), "HEX"),
    (re.compile(r"\d[\d,.:]*"), "0"),
    (re.compile(r"[ \t]+"), " "),
)


class Block(Struct, frozen=True, kw_only=True):
    """Commands to run, or a text that goes into a file."""

    line: int
    text: str
    file: str = ""
    exit: int = 0
    not_run: str = ""
    shown: tuple[str, ...] = ()


class Page(Struct, frozen=True, kw_only=True):
    """`server` is demo, empty or none; `copy` is whether it runs in a copy of the repository."""

    path: Path
    server: str
    copy: bool
    blocks: tuple[Block, ...]

    @property
    def not_run(self) -> list[Block]:
        return [block for block in self.blocks if block.not_run]


class Failed(AssertionError):
    """What a page's command did that the page does not say."""


def read(path: Path) -> Page:
    """Raises Failed for a mark that belongs to no block."""
    text = path.read_text()
    heads = {found["name"]: found["value"] for found in _HEAD.finditer(text)}
    blocks: list[Block] = []
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        content = re.sub(f"^{found[1]}", "", found["text"], flags=re.MULTILINE)
        if found["lang"] == "output":
            if not blocks:
                raise Failed(f"{path.name}:{line}: output of no command")
            blocks[-1] = Block(**_kept(blocks[-1]) | {"shown": (*blocks[-1].shown, *content.splitlines())})
        elif found["lang"] == "sh":
            blocks.append(Block(line=line, text=content, **_marks(text[: found.start()])))
        elif title := _TITLE.search(found["more"]):
            blocks.append(Block(line=line, text=content, file=title[1]))
    return Page(path=path, server=heads.get("server", "demo"), copy="in" in heads, blocks=tuple(blocks))


def _kept(block: Block) -> dict[str, object]:
    return {name: getattr(block, name) for name in block.__struct_fields__}


def _marks(before: str) -> dict[str, object]:
    found = _MARK.search(before)
    if found is None or found["name"] in ("server", "in"):
        return {}
    value = " ".join(found["value"].split())
    return {"not_run": value} if found["name"] == "not run" else {"exit": int(value)}


def unrun_commands(path: Path) -> list[str]:
    """Lines of blocks that no test runs, though they look like commands of ours."""
    text = _FENCE.sub(lambda found: "" if found["lang"] == "sh" else found[0], path.read_text())
    return re.findall(r"^(?:    |\t)?(?:\$ )?((?:\w+=\S+ )*(?:better-compute|make) .*)$", text, re.MULTILINE)


def run(page: Page, place: Path, environment: Mapping[str, str], cwd: Path) -> None:
    """Run the page in `cwd`; `place` takes the scripts and what they print. Raises Failed."""
    todo = [block for block in page.blocks if not block.not_run]
    driver = place / "page.sh"
    driver.write_text("".join(_step(block, place) for block in todo))
    end = time.monotonic() + PAGE_S
    bash = subprocess.Popen(
        ("bash", "--noprofile", "--norc", driver), cwd=cwd, env=environment, stdin=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        bash.wait(PAGE_S)
    except subprocess.TimeoutExpired:
        pass
    finally:
        _end_group(bash)
    for block in todo:
        _check(page, block, place, late=time.monotonic() > end)


def _step(block: Block, place: Path) -> str:
    """Blocks share a shell, so they share variables and jobs; the first that fails ends the page."""
    source, printed, status = (shlex.quote(str(place / f"{block.line}.{kind}")) for kind in ("sh", "out", "status"))
    Path(place / f"{block.line}.sh").write_text(block.text)
    if block.file:
        file = shlex.quote(block.file)
        return f"mkdir -p $(dirname {file}) && cp {source} {file}; echo $? >{status}\n"
    strict = "set +e" if block.exit else "set -e"
    return f"{strict}\n. {source} >{printed} 2>&1\necho $? >{status}; [ $(cat {status}) = {block.exit} ] || exit\n"


def _end_group(bash: subprocess.Popen[bytes]) -> None:
    """End what the page left running, and wait for it."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        end = time.monotonic() + END_S
        try:
            os.killpg(bash.pid, how)
            while time.monotonic() < end:
                bash.poll()
                os.killpg(bash.pid, 0)
                time.sleep(0.05)
        except ProcessLookupError:
            return


def _check(page: Page, block: Block, place: Path, *, late: bool) -> None:
    where = f"{page.path.name}:{block.line}"
    status, out = place / f"{block.line}.status", place / f"{block.line}.out"
    printed = out.read_text(errors="replace") if out.exists() else ""
    said = f"\n--- commands\n{block.text}--- printed\n{printed[-4000:]}"
    if not status.exists():
        raise Failed(f"{where}: {'not done in time' if late else 'a command failed'}{said}")
    if int(status.read_text()) != block.exit:
        raise Failed(f"{where}: left with {status.read_text().strip()}, not {block.exit}{said}")
    if missing := first_missing(block.shown, printed):
        raise Failed(f"{where}: it does not print {missing!r}{said}")


def first_missing(shown: tuple[str, ...], printed: str) -> str | None:
    """The first shown line that is not printed behind the one before it."""
    lines = iter([tame(line) for line in printed.splitlines()])
    for line in shown:
        if line.strip() in ("", "…"):
            continue
        pattern = re.compile(".*".join(re.escape(tame(part)) for part in line.strip().split("…")))
        if not any(pattern.fullmatch(one) for one in lines):
            return line
    return None


def tame(line: str) -> str:
    """Without what differs from one run to the next."""
    line = line.strip()
    for pattern, name in _WILD:
        line = pattern.sub(name, line)
    return line
