"""Makes an event with every field filled, for a new line in events.jsonl.

Run it as `PYTHONPATH=. python tests/stored/sample.py NAME`.
"""

import sys
from typing import Any

import msgspec
from msgspec import inspect

from domain import registry
from domain.event import Meta, Part, Recorded

WORDS: dict[str, str] = {
    "productUuid": "8f6f9e54-1c2d-4b3a-9f00-0123456789ab",
    "gpuUuid": "GPU-8f6f9e54-1c2d-4b3a-9f00-0123456789ab",
    "Gpu.uuid": "GPU-8f6f9e54-1c2d-4b3a-9f00-0123456789ab",
    "MigInstance.uuid": "MIG-8f6f9e54-1c2d-4b3a-9f00-0123456789ab",
    "role": "site",
    "pciBusId": "0000:1b:00.0",
    "mac": "9c:6b:00:12:34:56",
    "wwn": "0x5000c500a1b2c3d4",
}
LEFT_OUT = {"Topology.spread"}
"""A gang packs or spreads; the line has one of the two."""


def sample(type_: Any) -> Any:
    """JSON that the type accepts, with no field left out and no default value."""
    return _of(inspect.type_info(type_))


def _of(of: inspect.Type) -> Any:
    match of:
        case inspect.StructType(cls=cls, fields=fields, tag_field=tag_field, tag=tag):
            kept = [field for field in fields if f"{cls.__name__}.{field.name}" not in LEFT_OUT]
            made = {field.encode_name: _field(cls.__name__, field) for field in kept}
            return ({tag_field: tag} if tag_field else {}) | made
        case inspect.UnionType(types=types):
            return _of(next(t for t in types if not isinstance(t, inspect.NoneType)))
        case inspect.Metadata(type=inner):
            return _of(inner)
        case inspect.LiteralType(values=values):
            return values[-1]
        case inspect.StrType():
            return "text"
        case inspect.BoolType():
            return True
        case inspect.IntType(ge=ge, le=le):
            return max(7, ge or 0) if le is None else min(max(7, ge or 0), le)
        case inspect.FloatType(le=le):
            return 1.5 if le is None else min(1.5, le)
        case inspect.DictType(key_type=key, value_type=value):
            return {_of(key): _of(value)}
        case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
            return [_of(item)]
        case inspect.TupleType(item_types=items):
            return [_of(item) for item in items]
        case inspect.AnyType() | inspect.RawType():
            return {"any": 1}
        case _:
            raise TypeError(f"teach sample.py about {of}")


def _field(owner: str, field: inspect.Field) -> Any:
    name = field.encode_name
    word = WORDS.get(f"{owner}.{name}", WORDS.get(name))
    return _of(field.type) if word is None else word


def line(tag: str) -> bytes:
    from adapters.postgres.mapper import EventMapper

    event = msgspec.convert(sample(registry.TYPES[tag]), registry.TYPES[tag])
    meta = Meta("identity:acme/alice", "adm_1", "evt_0", "req-1")
    return (
        EventMapper()
        .to_stored_event(Recorded("x_1", 1, event, meta, "evt_1", part=Part("evt_0", 1, 3), tenants=("acme",)))
        .state
    )


if __name__ == "__main__":
    for wanted in sys.argv[1:] or registry.TYPES:
        print(line(wanted).decode())
