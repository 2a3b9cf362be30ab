"""An NVIDIA driver that is not there: an nvidia-smi on PATH, and the kernel's files of its GPUs under a root."""

import json
import sys
import uuid
from pathlib import Path
from typing import Any

_SMI = Path(__file__).parent / "fixtures" / "agent" / "nvidia_smi.py"
BOOT = "0b5d9f0e-5c2e-4a5b-8f0e-000000000001"


def gpu(n: int, name: str = "NVIDIA H100 80GB HBM3", memory: int = 81_559, **more: Any) -> dict[str, Any]:
    """A GPU of `gpus.json`; its minor number is not its index."""
    return {
        "uuid": f"GPU-{uuid.UUID(int=n + 1, version=4)}",
        "name": name,
        "memory": memory,
        "minor": 7 - n,
        "pci": f"00000000:{0x1B + n:02X}:00.0",
        "mode": "Disabled",
        "pending": "Disabled",
        "instances": [],
    } | more


class Driver:
    """`bin` belongs on PATH, and `root` is the host that it runs on."""

    def __init__(self, home: Path, *gpus: dict[str, Any]) -> None:
        self.bin, self.root = home / "bin", home / "host"
        self.bin.mkdir()
        program = self.bin / "nvidia-smi"
        program.write_text(f"#!{sys.executable} -IS\n{_SMI.read_text()}")
        program.chmod(0o755)
        self.write(*gpus)
        self.boot()
        minors = self.root / "proc/driver/nvidia-caps/mig-minors"
        minors.parent.mkdir(parents=True)
        rows = [
            f"gpu{g}/gi{i}/{path}access {100 * g + 10 * i + k}\n"
            for g in range(8)
            for i in range(15)
            for k, path in enumerate(("", "ci0/"))
        ]
        minors.write_text("config 1\nmonitor 2\n" + "".join(rows))

    def boot(self, boot_id: str = BOOT) -> None:
        file = self.root / "proc/sys/kernel/random/boot_id"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(boot_id + "\n")

    @property
    def gpus(self) -> list[dict[str, Any]]:
        return list(json.loads((self.bin / "gpus.json").read_text())["gpus"])

    def write(self, *gpus: dict[str, Any]) -> None:
        (self.bin / "gpus.json").write_text(json.dumps({"gpus": gpus}))

    def change(self, n: int, **fields: Any) -> None:
        gpus = self.gpus
        gpus[n] |= fields
        self.write(*gpus)

    def calls(self) -> list[str]:
        """Every command line so far that changes something."""
        file = self.bin / "calls"
        lines = file.read_text().splitlines() if file.exists() else []
        return [line for line in lines if any(word in line for word in ("-mig ", "-dci", "-dgi", "-cgi", "-reset"))]
