"""What an instance is made of: a flavor and an image that the caller's tenant sees, and that may be started now."""

from msgspec import Struct

from commands import flavors, image_content
from commands.ports import Loaded
from commands.unit import Unit
from domain import catalog, errors, flavor, image, image_signers, instance
from domain.instance import Flavor, Image


class Named(Struct, frozen=True):
    """An image that a request names, as it goes into a draft, and its stream as it was read."""

    image: Image
    loaded: Loaded


def flavor_of(unit: Unit, id: str) -> instance.Flavor:
    """The flavor of this id, its own or the platform's, for an instance that begins now."""
    state = flavors.visible(unit, id, "flavorId").state
    if state.retired_at is not None:
        raise _refused("flavorId", "the flavor is retired: no new instance has it")
    return Flavor(id, state.name, state.size)


def named_image(unit: Unit, id: str) -> Named:
    """The image of this id, whether or not it may be started; `verdict` is null where nobody vouches for it now.

    So a policy that lets only verified images start has its say on the draft, before `must_start` refuses by itself.
    """
    unit.resolve(catalog.IMAGE, id, "imageId")
    loaded = unit.existing(id, "imageId")
    state: image.State = loaded.state
    allowlist: image_signers.State = unit.load(image_signers.STREAM).state
    made = Image(
        id=id,
        name=state.name,
        version=state.version,
        owner_tenant_id=state.owner_tenant_id,
        format=state.format,
        sha256=state.sha256,
        size_bytes=state.size_bytes,
        verdict=image.vouched(state, allowlist.keys),
    )
    return Named(made, loaded)


def must_start(unit: Unit, named: Named) -> None:
    """Refuse what no instance starts from now, naming what would help. That bytes are gone is recorded."""
    state: image.State = named.loaded.state
    if state.purpose != "os":
        raise _refused("imageId", f"the image is a {state.purpose}; instances start from those of purpose os")
    if state.retired_at is not None:
        raise _refused("imageId", "the image is retired: nothing new starts from it")
    if named.image.verdict is None:
        who = "no signer who is allowed now vouches for the image"
        raise _refused("imageId", f"{who}; sign it" if not state.verified else f"{who}: theirs are off the list")
    if state.stored_at is None:
        raise _refused("imageId", "the image has no bytes yet; upload them")
    if not unit.ports.images.blobs.has(state.sha256):
        image_content.missed(unit.ports.store, named.image.id, unit.ports.images.blobs.has)
        raise _refused("imageId", "the image's bytes are gone from where they were kept; upload them again")


def must_fit(named: Named, of: instance.Flavor) -> None:
    """Refuse an image whose disk is larger than the flavor's: no node could ever make it. An ISO comes beside it."""
    state: image.State = named.loaded.state
    needs = state.virtual_bytes
    if state.format == "iso" or needs is None or needs <= of.size.disk_gib * flavor.BYTES_A_GIB:
        return
    least = -(-needs // flavor.BYTES_A_GIB)
    has = f"its disk has {of.size.disk_gib} GiB, the image makes one of {needs} bytes"
    raise errors.Invalid("flavorId", f"{has}; take a flavor with diskGiB of {least} or more")


def _refused(field: str, message: str) -> errors.Conflict:
    return errors.Conflict(f"{field}: {message}", errors=(errors.FieldError(field, message),))
