"""Whose signatures make images verified (domain.md §6)."""

from domain import errors, image_signers
from domain.operation import Answer, Known, Operation
from queries.reading import Reader, known


class Get(Known, frozen=True, kw_only=True):
    pass


def get(query: Get, read: Reader) -> Answer:
    """One that was never set is empty, at version 0."""
    loaded = known(read, image_signers.STREAM)
    body = image_signers.view(image_signers.STREAM, loaded.state, loaded.version)
    return Answer(body=body, position=read.position, version=loaded.version)


OPERATIONS = (
    Operation(
        name="imageSigners.get",
        verb="GET",
        path="/v1/image-signers",
        request=Get,
        response=image_signers.View,
        on=("compute-fleet/global",),
        handle=get,
        summary="Show whose signatures make images verified",
        refusals=(errors.AccessDenied, errors.ProjectionBehind, errors.HistoryPruned),
    ),
)
