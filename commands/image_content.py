"""The bytes of images: they come once, and go when a retired image is used by nobody (domain.md §6)."""

from typing import Annotated

from msgspec import Meta

from commands.ports import Loaded
from commands.unit import Outcome, Unit, changed
from domain import errors, image
from domain.image_content import Content, Expected
from domain.operation import Operation, Request


class Upload(Request, frozen=True, kw_only=True):
    id: Annotated[str, Meta(description="the image whose bytes are the body")]


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
        summary="Upload the bytes of an image; what differs from the digest, size and format it has is not kept",
        refusals=(errors.AccessDenied, errors.NotFound, errors.Conflict, errors.StaleVersion, errors.StorageFull),
        content=expected,
    ),
)
