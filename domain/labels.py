"""Labels: small facts that users attach; kept for ever, so only opaque values belong in them (domain.md §1)."""

from typing import Annotated

from msgspec import Meta

LabelKey = Annotated[str, Meta(min_length=1, max_length=63)]
LabelValue = Annotated[str, Meta(max_length=255)]
Labels = Annotated[dict[LabelKey, LabelValue], Meta(max_length=32)]
