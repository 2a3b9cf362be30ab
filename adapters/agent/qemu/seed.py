"""The NoCloud seed: a small ISO 9660 volume `cidata` from which cloud-init learns who it is.

Its files are meta-data (instance-id, local-hostname, public-keys) and user-data as the tenant gave it; cloud-init
takes a seed only if it has both.
"""

import io
from typing import Final

import msgspec
from pycdlib import PyCdlib

from adapters.agent.driver import Seed

LABEL: Final = "cidata"


def files(seed: Seed) -> dict[str, bytes]:
    """JSON is YAML, and leaves no doubt how a name or key is to be read."""
    meta = {"instance-id": seed.instance_id, "local-hostname": seed.name, "public-keys": list(seed.ssh_keys)}
    return {"meta-data": msgspec.json.encode(meta) + b"\n", "user-data": seed.user_data}


def iso(seed: Seed) -> bytes:
    """Rock Ridge and Joliet both have the names as cloud-init looks for them."""
    disc = PyCdlib()
    disc.new(interchange_level=3, joliet=3, rock_ridge="1.09", vol_ident=LABEL)
    for name, content in files(seed).items():
        plain = name.upper().replace("-", "_")
        disc.add_fp(io.BytesIO(content), len(content), f"/{plain}.;1", rr_name=name, joliet_path=f"/{name}")
    made = io.BytesIO()
    disc.write_fp(made)
    disc.close()
    return made.getvalue()
