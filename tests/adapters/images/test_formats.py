"""What is uploaded is what it was registered as, by its content; what leans on another file is refused."""

import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import disks
from adapters.images import formats, qcow2
from domain import errors
from domain.image import Format, Purpose


def check(content: bytes, format: Format, purpose: Purpose = "os") -> int:
    virtual = formats.check_head(content[: formats.HEAD], len(content), format, purpose)
    formats.check_tail(content[-formats.TAIL :], format)
    return virtual


@pytest.mark.parametrize("version", [2, 3])
def test_a_qcow2_makes_a_disk_of_its_virtual_size(version: int) -> None:
    assert check(disks.qcow2(virtual=1 << 30, version=version), "qcow2") == 1 << 30


def test_a_raw_disk_and_an_iso_are_as_large_as_their_files() -> None:
    assert check(bytes(4096), "raw") == 4096
    assert check(disks.iso(40), "iso") == 40 * 2048


def test_a_ramdisk_may_be_compressed_and_of_any_length() -> None:
    assert check(b"\x1f\x8b" + bytes(99), "raw", "ramdisk") == 101


BROKEN: list[tuple[str, Callable[[], bytes], Format]] = [
    ("backing file", lambda: disks.qcow2(backing=b"/etc/shadow"), "qcow2"),
    ("backing file", lambda: disks.qcow2(version=2, backing=b"json:{}"), "qcow2"),
    ("external file", lambda: disks.qcow2(incompatible=4), "qcow2"),
    ("external data file", lambda: disks.qcow2(extension=(0x44415441, b"/dev/sda")), "qcow2"),
    ("backing file's format", lambda: disks.qcow2(extension=(0xE2792ACA, b"raw")), "qcow2"),
    ("beyond the header", lambda: disks.qcow2(extension=(0x11111111, b""), claimed=1 << 31), "qcow2"),
    ("beyond what is read", lambda: disks.qcow2(bits=21, extension=(0x11111111, bytes(formats.HEAD - 120))), "qcow2"),
    ("bitmaps", lambda: disks.qcow2(extension=(0x23852875, bytes(24))), "qcow2"),
    ("not closed", lambda: disks.qcow2(incompatible=1), "qcow2"),
    ("corrupt", lambda: disks.qcow2(incompatible=2), "qcow2"),
    ("features", lambda: disks.qcow2(incompatible=1 << 40), "qcow2"),
    ("encrypted", lambda: disks.qcow2(encryption=2), "qcow2"),
    ("snapshots", lambda: disks.qcow2(snapshots=1), "qcow2"),
    ("version is 4", lambda: disks.qcow2(version=4), "qcow2"),
    ("clusters", lambda: disks.qcow2(bits=30), "qcow2"),
    ("at most", lambda: disks.qcow2(virtual=1 << 62, l1=1 << 20), "qcow2"),
    ("at most", lambda: disks.qcow2(virtual=0), "qcow2"),
    ("too short", lambda: disks.qcow2(virtual=1 << 40), "qcow2"),
    ("L1 table", lambda: disks.qcow2(l1_offset=1 << 50), "qcow2"),
    ("L1 table", lambda: disks.qcow2(l1_offset=7), "qcow2"),
    ("refcount table", lambda: disks.qcow2(refcount_clusters=0), "qcow2"),
    ("cut off", lambda: disks.qcow2()[:60], "qcow2"),
    ("cut off", lambda: disks.qcow2()[:90], "qcow2"),
    ("claims to be", lambda: disks.qcow2(length=4 << 20), "qcow2"),
    ("something else", lambda: bytes(4096), "qcow2"),
    ("ISO 9660", lambda: disks.iso(40), "qcow2"),
    ("a VMDK", lambda: b"KDMV".ljust(512), "qcow2"),
    ("a qcow2", lambda: disks.qcow2(), "raw"),
    ("a VMDK", lambda: b"KDMV".ljust(512), "raw"),
    ("a VHD", lambda: bytes(512) + b"conectix".ljust(512), "raw"),
    ("LUKS", lambda: b"LUKS\xba\xbe".ljust(512), "raw"),
    ("gzip", lambda: b"\x1f\x8b".ljust(512), "raw"),
    ("ISO 9660", lambda: disks.iso(40), "raw"),
    ("multiple of 512", lambda: bytes(513), "raw"),
    ("CD001", lambda: bytes(40 * 2048), "iso"),
    ("CD001", lambda: b"x", "iso"),
    ("a qcow2", lambda: qcow2.MAGIC + disks.iso(40)[4:], "iso"),
    ("cut off", lambda: disks.iso(40)[: 30 * 2048], "iso"),
    ("primary", lambda: disks.iso(40, kind=255), "iso"),
    ("no volume", lambda: disks.iso(40, block=0), "iso"),
]


@pytest.mark.parametrize(("said", "made", "format"), BROKEN)
def test_what_is_broken_or_pretends_is_refused_with_the_reason(
    said: str, made: Callable[[], bytes], format: Format
) -> None:
    with pytest.raises(errors.Invalid, match=said) as refused:
        check(made(), format)
    assert refused.value.field == "body"


def test_no_cut_of_a_header_is_more_than_a_refusal() -> None:
    whole = disks.qcow2()
    for length in range(200):
        cut = whole[:length]
        try:
            check(cut, "qcow2")
        except errors.Invalid:
            continue
        pytest.fail(f"{length} bytes are no qcow2")


def test_no_byte_of_a_header_makes_more_than_a_refusal() -> None:
    whole = disks.qcow2()
    for at in range(112):
        for byte in (0, 1, 0x7F, 0xFF):
            made = bytearray(whole)
            made[at] = byte
            try:
                virtual = check(bytes(made), "qcow2")
            except errors.Invalid:
                continue
            assert 0 < virtual <= qcow2.MAX_VIRTUAL


def test_the_virtual_size_is_read_as_qemu_writes_it() -> None:
    header = disks.qcow2(virtual=12345 * 512)
    assert struct.unpack_from(">Q", header, 24) == (12345 * 512,)


QEMU_IMG = pytest.mark.skipif(shutil.which("qemu-img") is None, reason="qemu-img is not here (apt install qemu-utils)")


def made_by_qemu(path: Path, *options: str, size: str = "3G", base: Path | None = None) -> bytes:
    backing = ["-b", str(base), "-F", "qcow2"] if base else []
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", *backing, *options, str(path), size], check=True)
    return path.read_bytes()


@QEMU_IMG
@pytest.mark.parametrize(
    "options",
    ["compat=0.10", "compat=1.1", "cluster_size=512", "cluster_size=2M", "extended_l2=on", "compression_type=zstd"],
)
def test_what_qemu_makes_is_taken(options: str, tmp_path: Path) -> None:
    assert check(made_by_qemu(tmp_path / "disk", "-o", options), "qcow2") == 3 << 30


@QEMU_IMG
def test_what_leans_on_another_file_or_says_more_than_a_disk_is_refused_as_qemu_makes_it(tmp_path: Path) -> None:
    base = tmp_path / "base"
    made_by_qemu(base)
    with pytest.raises(errors.Invalid, match="backing file"):
        check(made_by_qemu(tmp_path / "overlay", base=base), "qcow2")
    with pytest.raises(errors.Invalid, match="external file"):
        check(made_by_qemu(tmp_path / "split", "-o", f"data_file={tmp_path}/data"), "qcow2")
    marked = tmp_path / "marked"
    made_by_qemu(marked)
    subprocess.run(["qemu-img", "bitmap", "--add", str(marked), "b"], check=True)
    with pytest.raises(errors.Invalid, match="bitmaps"):
        check(marked.read_bytes(), "qcow2")
    # LUKS would measure this machine first, and fail where that is busy.
    secret = ["--object", "secret,id=s,data=x", "-o", "encrypt.format=aes,encrypt.key-secret=s"]
    with pytest.raises(errors.Invalid, match="encrypted"):
        check(made_by_qemu(tmp_path / "sealed", *secret), "qcow2")


@QEMU_IMG
def test_no_other_format_of_qemu_is_taken_for_a_raw_disk(tmp_path: Path) -> None:
    for format in ("qcow2", "vmdk", "vdi", "vhdx", "vpc", "qed", "parallels"):
        path = tmp_path / format
        subprocess.run(["qemu-img", "create", "-q", "-f", format, str(path), "4M"], check=True)
        content = path.read_bytes()
        with pytest.raises(errors.Invalid, match="registered as raw"):
            check(content.ljust(-(-len(content) // 512) * 512, b"\0"), "raw")
