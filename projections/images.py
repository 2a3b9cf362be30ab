"""Images as lists show them."""

from typing import Any

from domain import image
from projections.documents import KEEPING, Documents

TABLES = f"""
CREATE TABLE images (
    id text PRIMARY KEY,
    tenant_id text NOT NULL,
    name text NOT NULL,
    image_version text NOT NULL,
    sha256 text NOT NULL,
    purpose text NOT NULL,
    visibility text NOT NULL,
    state_name text NOT NULL,
    verified boolean NOT NULL,
    created_at bigint NOT NULL,
    stored boolean NOT NULL,
    retired_at bigint,
    since bigint NOT NULL,
    version bigint NOT NULL,
    state bytea NOT NULL
) {KEEPING};
CREATE INDEX images_by_tenant ON images (tenant_id, created_at, id);
CREATE INDEX images_public ON images (created_at, id) WHERE visibility = 'public';
CREATE INDEX images_by_digest ON images (sha256, id);
CREATE INDEX images_to_drop ON images (retired_at, id) WHERE stored AND retired_at IS NOT NULL;
"""


def facets(state: image.State) -> tuple[Any, ...]:
    named = state.owner_tenant_id, state.name, state.version, state.sha256
    return *named, state.purpose, state.visibility, state.status, state.verified


def columns(state: image.State) -> tuple[Any, ...]:
    return state.created_at, state.stored_at is not None, state.retired_at


MODEL = Documents(
    "images",
    "img_",
    image.State,
    facets=(
        "tenant_id text",
        "name text",
        "image_version text",
        "sha256 text",
        "purpose text",
        "visibility text",
        "state_name text",
        "verified boolean",
    ),
    columns=("created_at bigint", "stored boolean", "retired_at bigint"),
    facets_of=facets,
    columns_of=columns,
)

PROJECTION = MODEL.projection(TABLES)
