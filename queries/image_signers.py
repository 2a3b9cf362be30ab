"""Whose signatures make the caller's tenant's images verified (domain.md §6)."""

from domain import errors, image_signers
from domain.operation import Answer, Known, Operation
from queries.reading import Reader, known


class Get(Known, frozen=True, kw_only=True):
    pass


def get(query: Get, read: Reader) -> Answer:
    """One that was never set is empty, at version 0."""
    stream = image_signers.stream(read.session.tenant_id)
    loaded = known(read, stream)
    body = image_signers.view(stream, loaded.state, loaded.version)
    return Answer(body=body, position=read.position, version=loaded.version)


OPERATIONS = (
    Operation(
        name="imageSigners.get",
        verb="GET",
        path="/v1/image-signers",
        request=Get,
        response=image_signers.View,
        on=("compute-tenant/{acting}",),
        handle=get,
        summary="Show whose signatures make your tenant's images verified",
        refusals=(errors.AccessDenied, errors.ProjectionBehind, errors.HistoryPruned),
    ),
)
