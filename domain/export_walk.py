"""What the checks of a tenant's and of the fleet's lines share: the tree that they add up to, and naming faults."""

from typing import Any, TypeVar

import msgspec

from domain import export_header
from domain.checkpoint import Checkpoint
from domain.cover import Cover
from domain.event import Recorded
from domain.export import End, Proof, Row
from domain.export_header import Known, Trust
from domain.export_report import Verdict

L = TypeVar("L", Proof, Row, End)

UNREADABLE = (msgspec.MsgspecError, RecursionError, UnicodeError)
"""What decoding a hostile line raises."""


class Walk:
    """The state of one check. `number` is the line at hand; `whole` says that the tree can still come to its root."""

    def __init__(self, known: Known, trust: Trust, verdict: Verdict) -> None:
        self.header = known.header
        self.current = known.current
        self.verdict = verdict
        self.trust = trust
        self.number = 1
        self.tree = Cover()
        self.whole = known.current is not None
        passed = known.kept is not None and not verdict.kept_proved and export_header.passes(known.header, known.kept)
        self._kept: Checkpoint | None = known.kept if passed and verdict.faults.count == 0 else None

    def fault(self, where: str, field: str, says: str) -> None:
        self.verdict.faults.add(self.number, where, field, says)

    def typed(self, raw: bytes, type: type[L], where: str) -> L | None:
        """A line of ours, in its one form; what is not of its type at all is None."""
        try:
            found = msgspec.json.decode(raw, type=type)
        except UNREADABLE as wrong:
            self.fault(where, "line", f"cannot be read: {printable(str(wrong))}")
            return None
        if (unsound := export_header.unsealed(found, raw)) is not None:
            self.fault(where, *unsound)
        return found

    def fill(self, upto: int, fill: str, where: str) -> None:
        """Cover the leaves up to one. `whole` is over where that fails."""
        wrong = export_header.filled(self.tree, upto, fill)
        if wrong is not None:
            self.whole = False
            self.fault(where, "fill", wrong)
        self._pass()

    def leaf(self, hashed: bytes) -> None:
        if self.whole:
            self.tree.leaf(hashed)
            self._pass()

    def place(self, index: int, where: str) -> bool:
        """Whether a leaf with this number can come next."""
        if self.current is not None and index >= self.current.size:
            self.whole = False
            self.fault(where, "index", f"is {index}, the checkpoint's tree has {self.current.size} leaves")
        return self.whole

    def finish(self, fill: str) -> None:
        """What covers the rest of the tree: it must now have the root that was signed."""
        if not self.whole or self.current is None:
            return
        self.fill(self.current.size, fill, "end")
        root = self.tree.root()
        if self.whole and root != self.current.root:
            says = f"the lines add up to root {root.hex()}, the checkpoint signs {self.current.root.hex()}"
            self.fault("end", "root", says)
        if self._kept is not None:
            self.verdict.faults.add(0, "", "size", f"is {self._kept.size}, and the lines did not come to it")

    def decoded(self, row: tuple[str, int, str, bytes, int, int], where: str) -> Recorded | None:
        """The event of a row; its bytes are those that were hashed, so one that cannot be read was stored so."""
        try:
            return self.trust.decode(*row)
        except ValueError as wrong:
            self.fault(where, "stored", f"cannot be read as an event: {printable(str(wrong))}")
            return None

    def _pass(self) -> None:
        if self._kept is not None and self.tree.size == self._kept.size and self.whole:
            export_header.compare_roots(self._kept, self.tree.root().hex(), self.verdict)
            self._kept = None


def printable(said: Any, most: int = 200) -> str:
    """What a line says, fit for a terminal."""
    try:
        text = ascii(said)[1:-1] if isinstance(said, str) else ascii(said)
    except RecursionError:
        return "nested too deep to show"
    return text if len(text) <= most else text[:most] + "…"
