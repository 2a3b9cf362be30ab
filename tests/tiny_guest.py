"""An operating system of one sector: it says on the serial line that it is up, and which label its second disk has.

It shuts down when its power button is pressed, as q35 has it after SeaBIOS: power management at port 0x600. One made
with `fills` writes to its disk without end instead.
"""

from pathlib import Path

UP = "guest is up"
SEED = "seed: cidata"
OFF = "power button"

_TEXTS = {"up": f"{UP}\r\n", "seed": SEED[:6], "line": "\r\n", "off": f"{OFF}\r\n"}
_ORIGIN = 0x7C00
_BUFFER = 0x8000
_VOLUME_ID = _BUFFER + 40
"""Of an ISO 9660 primary volume descriptor, which is 16 sectors of 2,048 bytes into the disk."""


class _Code:
    """Machine code of the 8086 with jumps to names."""

    def __init__(self) -> None:
        self.bytes = bytearray()
        self._names: dict[str, int] = {}
        self._jumps: list[tuple[int, str, int]] = []

    def raw(self, text: str) -> None:
        self.bytes += bytes.fromhex(text)

    def name(self, name: str) -> None:
        self._names[name] = len(self.bytes)

    def short(self, opcode: str, name: str) -> None:
        self.raw(opcode + "00")
        self._jumps.append((len(self.bytes) - 1, name, 1))

    def call(self, name: str) -> None:
        self.raw("e80000")
        self._jumps.append((len(self.bytes) - 2, name, 2))

    def point(self, opcode: str, name: str) -> None:
        """An instruction with the address of a name as its operand."""
        self.raw(opcode + "0000")
        self._jumps.append((len(self.bytes) - 2, name, 0))

    def done(self) -> bytes:
        for at, name, width in self._jumps:
            size = width or 2
            value = self._names[name] + _ORIGIN if width == 0 else self._names[name] - at - size
            self.bytes[at : at + size] = (value & (256**size - 1)).to_bytes(size, "little")
        return bytes(self.bytes)


def boot_sector(fills: bool = False) -> bytes:
    code = _Code()
    code.raw("31c0 8ed8 8ec0 8ed0 bc007c")  # ds = es = ss = 0, stack below
    _say(code, "up")
    code.point("be", "packet")
    code.raw("b442 b281 cd13")  # read the second disk
    code.short("72", "seedless")
    code.raw(f"be{_VOLUME_ID.to_bytes(2, 'little').hex()} c644 06 00")  # the first six letters
    code.raw("56")
    _say(code, "seed")
    code.raw("5e")
    code.call("print")
    _say(code, "line")
    code.name("seedless")
    _fill(code) if fills else _wait(code)
    code.name("print")
    code.raw("ac 84c0")  # next letter, until a zero
    code.short("74", "printed")
    code.raw("88c4 bafd03")
    code.name("busy")
    code.raw("ec a820")  # until the line takes one
    code.short("74", "busy")
    code.raw("88e0 baf803 ee")
    code.short("eb", "print")
    code.name("printed")
    code.raw("c3")
    for name, text in _TEXTS.items():
        code.name(name)
        code.bytes += text.encode() + b"\0"
    code.name("packet")
    code.raw("1000 0400" + _BUFFER.to_bytes(2, "little").hex() + "0000 4000000000000000")
    code.name("out")
    code.raw("1000 4000 0080 0000 0008000000000000")
    made = code.done()
    assert len(made) <= 510
    return made.ljust(510, b"\0") + b"\x55\xaa"


def disk(fills: bool = False) -> bytes:
    """A raw image of 1 MiB."""
    return boot_sector(fills).ljust(1 << 20, b"\0")


def raw(path: Path, fills: bool = False) -> Path:
    path.write_bytes(disk(fills))
    return path


def _say(code: _Code, name: str) -> None:
    code.point("be", name)
    code.call("print")


def _wait(code: _Code) -> None:
    code.raw("ba0206 b80001 ef fb")  # the power button counts; interrupts on
    code.name("wait")
    code.raw("f4 ba0006 ed a90001")  # sleep till the next tick, then look at the button
    code.short("74", "wait")
    _say(code, "off")
    code.raw("ba0406 b80020 ef")  # soft off
    code.name("gone")
    code.raw("f4")
    code.short("eb", "gone")


def _fill(code: _Code) -> None:
    code.raw("fb")
    code.name("more")
    code.point("be", "out")
    code.raw("8344 08 40 b80043 b280 cd13")  # 32 KiB further on, write
    code.short("72", "more")
    code.short("eb", "more")
