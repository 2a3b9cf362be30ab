"""`ip -j -d link`: physical ports with their permanent addresses and virtual functions."""

from collections.abc import Mapping
from typing import Any, Final

from adapters.inventory.fragment import (
    Fragment,
    InventoryError,
    first_of_each,
    json_object,
    known,
    mappings,
    optional,
    text,
    whole,
)
from domain import hardware_id

_COMMAND: Final = "ip -j -d link"
_KINDS: Final = frozenset({"ether", "infiniband"})


def parse(content: bytes, file: str) -> Fragment:
    """Bonds, VLANs and bridges have a `linkinfo` kind of their own and are left out."""
    document = json_object(content, file, _COMMAND)
    if not isinstance(document, list) or not all("ifname" in link for link in mappings(document)):
        raise InventoryError(file, "is no list of links", f"give the output of `{_COMMAND}`")
    nics = [nic for link in mappings(document) if (nic := _nic(link))]
    return {"nics": first_of_each(nics, "mac")}


def _nic(link: Mapping[str, Any]) -> Fragment | None:
    info = link.get("linkinfo")
    info = info if isinstance(info, Mapping) else {}
    mac = optional(hardware_id.mac, link.get("permaddr") or (None if _in_bond(info) else link.get("address")))
    if text(link.get("link_type")) not in _KINDS or "info_kind" in info or mac is None:
        return None
    return known(
        mac=mac,
        name=text(link.get("ifname")),
        pciBusId=optional(hardware_id.pci, link.get("parentdev")),
        vfs=[{"index": k} for vf in mappings(link.get("vfinfo_list")) if (k := whole(vf.get("vf"))) is not None],
    )


def _in_bond(info: Mapping[str, Any]) -> bool:
    """A member shows the bond's address; `ip` prints its own as `permaddr` only where the two differ."""
    slave = info.get("info_slave_data")
    return info.get("info_slave_kind") == "bond" and not (isinstance(slave, Mapping) and "perm_hwaddr" in slave)
