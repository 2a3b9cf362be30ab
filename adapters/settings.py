"""What an operator can set: flags, or the environment as BETTER_COMPUTE_<NAME>."""

from pathlib import Path

from msgspec import Struct

ENVIRONMENT = "BETTER_COMPUTE"


class Settings(Struct, frozen=True, kw_only=True):
    """`database_url` is a libpq connection string; without it an embedded PostgreSQL runs in `data_dir`.

    `history_days` is how long row versions are kept, None for ever. With `iam_url` a Better IAM decides, instead of
    an access file.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    data_dir: Path | None = None
    database_url: str | None = None
    access_file: Path | None = None
    iam_resolver_key_file: Path | None = None
    audit_key_file: Path | None = None
    instance_key_file: Path | None = None
    image_dir: Path | None = None
    demo: bool = False
    ready_file: Path | None = None
    history_days: int | None = None
    iam_url: str | None = None
    iam_root_tenant: str | None = None
    iam_service_key_file: Path | None = None
    iam_webhook_secret_file: Path | None = None
    iam_jwt_audience: str | None = None
    iam_jwt_issuer: str | None = None
    iam_client_address_header: str | None = None
