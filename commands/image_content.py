"""The bytes of images: they come once, and go when a retired image is used by nobody (domain.md §6)."""

from collections.abc import Callable
from typing import Annotated, Final

import msgspec

from commands.ports import Loaded, Race, Store
from commands.unit import Outcome, Unit, changed
from domain import errors, image
from domain.event import Append, Change, Meta
from domain.image_content import Content, Expected
from domain.operation import Operation, Request

ACTOR: Final = "controller:images"


class Upload(Request, frozen=True, kw_only=True):
    id: Annotated[str, msgspec.Meta(description="the image whose bytes are the body")]


def expected(command: Upload, unit: Unit) -> Expected:
    """What must come; whatever lets it come is asked again once it is there."""
    loaded = _open(command, unit)
    unit.must_match(loaded)
    state: image.State = loaded.state
    return Expected(state.sha256, state.size_bytes, state.format, state.purpose)


def upload(command: Upload, unit: Unit) -> Outcome:
    """The bytes are kept by now. Those that were there already are none the newer."""
    loaded = _open(command, unit)
    content = unit.call.content
    assert isinstance(content, Content)
    events = [] if loaded.state.stored_at is not None else [image.Stored(content.virtual_bytes, unit.now)]
    return Outcome((changed(command.id, loaded, events),))


def _open(command: Upload, unit: Unit) -> Loaded:
    loaded = unit.existing(command.id)
    state: image.State = loaded.state
    unit.only_owner(state.owner_tenant_id, f"compute-image/{command.id}")
    if state.retired_at is not None:
        raise errors.Conflict("the image is retired: its bytes are not taken any more")
    return loaded


def missed(store: Store, id: str, has: Callable[[str], bool]) -> None:
    """Somebody looked for the bytes of a stored image and found none: say so, unless they came back meanwhile."""
    loaded = store.load(id)
    state: image.State = loaded.state
    if state.stored_at is not None and not has(state.sha256):
        _record(store, id, loaded, image.Missed(store.now()))


def dropped(store: Store, id: str, used: bool) -> bool:
    """Whether the log has that the bytes of a retired image, which nobody uses, go now."""
    loaded = store.load(id)
    state: image.State = loaded.state
    if state.retired_at is None or state.stored_at is None or used:
        return False
    return _record(store, id, loaded, image.Dropped(store.now()))


def _record(store: Store, id: str, loaded: Loaded, event: image.Events) -> bool:
    """What somebody else recorded first stands."""
    try:
        store.append(Append((Change(id, loaded.version, (event,)),), Meta(ACTOR)))
    except Race:
        return False
    return True


OPERATIONS = (
    Operation(
        name="images.upload",
        verb="PUT",
        path="/v1/images/{id}/content",
        request=Upload,
        response=image.View,
        on=("compute-image/{id}",),
        handle=upload,
        view=image.view,
        summary="Upload the bytes of an image; they must match its digest, size and format",
        refusals=(errors.AccessDenied, errors.NotFound, errors.Conflict, errors.StaleVersion, errors.StorageFull),
        content=expected,
    ),
)
