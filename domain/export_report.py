"""What the check of an export found: every fault by line, place and field, and what is proved and what is not."""

from typing import Final, Literal

from msgspec import Struct

from domain import chain

MOST: Final = 100
"""Faults that are told one by one; of the others there is the number."""

Basis = Literal["given", "kept", "own"]
"""Whose word the key is: the reader gave it; it signed the checkpoint that the reader kept; or the export names it."""


class Fault(Struct, frozen=True):
    """`where` says the event or leaf, as far as it could be read, `field` what of it is wrong, `says` how."""

    line: int
    where: str
    field: str
    says: str

    def __str__(self) -> str:
        place = f" ({self.where})" if self.where else ""
        at = f"line {self.line}" if self.line else "the checkpoint file"
        return f"{at}{place}: {self.field}: {self.says}"


class Faults:
    """Collects them, with bounded memory. `line` 0 is the checkpoint that was kept, all others the export's lines."""

    def __init__(self) -> None:
        self.told: list[Fault] = []
        self.count = 0

    def add(self, line: int, where: str, field: str, says: str) -> None:
        self.count += 1
        if len(self.told) < MOST:
            self.told.append(Fault(line, where, field, says))


class Verdict(Struct):
    """`size` is 0 while no checkpoint could be read; `kept` is the size of the one that was kept, None without one."""

    faults: Faults
    scope: str = ""
    tenant_id: str = ""
    origin: str = ""
    note: str = ""
    size: int = 0
    root: str = ""
    first: int = 0
    count: int = 0
    checked: int = 0
    stored: int = 0
    lines: int = 0
    next: int | None = None
    head: chain.Head | None = None
    basis: Basis = "own"
    vkey: str = ""
    kept: int | None = None
    kept_proved: bool = False

    @property
    def good(self) -> bool:
        return self.faults.count == 0


def proved(of: Verdict) -> list[str]:
    """What holds, in sentences; nothing where there was a fault."""
    if not of.good:
        return []
    last = of.first + of.count - 1
    tree = f"the tree of {of.size:,} leaves whose root {of.root} the checkpoint of {of.origin} signs"
    if of.scope == "fleet":
        said = [
            f"leaves {of.first:,} to {last:,} ({of.count:,}) with their stored bytes are those of {tree}",
            "every event stands in the chain of each tenant that it is of, in log order, and says what its bytes say",
        ]
    else:
        said = [
            f"events {of.first:,} to {last:,} ({of.count:,}) of tenant {of.tenant_id} form one chain without a gap",
            f"each of them is a leaf of {tree}, in log order",
            f"{of.stored:,} of them come with their stored bytes, and say what these say",
        ]
    if of.count == 0:
        said = [f"the export is empty, and ends in {tree}"]
    if of.kept_proved:
        said.append(f"nothing of the {of.kept:,} leaves before the checkpoint that was kept has changed since")
    return said + _of_key(of)


def _of_key(of: Verdict) -> list[str]:
    if of.basis == "given":
        return [f"the signature is by the key that was given, {of.vkey}"]
    if of.basis == "kept":
        return [f"the same key signed the checkpoint that was kept, {of.vkey}"]
    return []


def unproved(of: Verdict) -> list[str]:
    """What an export like this cannot show, and what would."""
    said = []
    if of.basis == "own":
        said.append(f"whose key {of.vkey} is: the export names it itself; give the one you know with --key")
    if of.kept is None:
        said.append("that history is what it was: no checkpoint kept from before was given (--checkpoint)")
    if of.scope == "fleet":
        if of.first:
            said.append(f"where the chains stood before leaf {of.first:,}: the export's word, as the one before ends")
    else:
        if of.first > 1:
            said.append(f"what comes before event {of.first:,}: compare its previousHash with the end of that export")
        if of.count > of.stored:
            others = of.count - of.stored
            said.append(
                f"what is said of {others:,} events whose bytes the export keeps back, as of those that are another "
                "tenant's as well: that they are in the log, when and as which bytes is proved, who did what is the "
                "chain's word; an export of the fleet shows it"
            )
        said.append("that no event of the tenant was left out of its chain: an export of the fleet shows it")
    if of.next is not None:
        said.append(f"what follows: the export was cut, the next begins at {of.next:,}")
    said.append(f"what came after leaf {max(of.size - 1, 0):,} of the log")
    return said
