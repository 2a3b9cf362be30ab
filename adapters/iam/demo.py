"""The access file of `serve --demo`: a platform, two customers, a token for each part (domain.md §10)."""

from collections.abc import Callable

from adapters.iam import tokens

_CAST = {
    "root": ("platform", "platform-admin"),
    "operator": ("platform", "platform-operator"),
    "auditor": ("platform", "auditor"),
    "acme": ("acme", "tenant-admin"),
    "globex": ("globex", "tenant-admin"),
    "acme-user": ("acme", "tenant-user"),
    "globex-user": ("globex", "tenant-user"),
}
"""Identity to tenant and role."""

_TENANTS = """\
[tenants.platform]

[tenants.acme]
parent = "platform"

[tenants.globex]
parent = "platform"
"""


def demo_access(mint: Callable[[], str] = tokens.mint) -> tuple[str, dict[str, str]]:
    """The file's text, which holds hashes alone, and the fresh token of each identity by its name."""
    minted = {name: mint() for name in _CAST}
    identities = [
        f'\n[identities.{name}]\ntenant = "{tenant}"\nkind = "user"\nroles = ["{role}"]\n'
        f'token_sha256 = ["{tokens.digest(minted[name])}"]\n'
        for name, (tenant, role) in _CAST.items()
    ]
    return _TENANTS + "".join(identities), minted


def first_access(mint: Callable[[], str] = tokens.mint) -> tuple[str, dict[str, str]]:
    """The access file of a new installation: the platform's tenant and its first administrator."""
    token = mint()
    text = (
        '[tenants.platform]\n\n[identities.root]\ntenant = "platform"\nkind = "user"\n'
        f'roles = ["platform-admin"]\ntoken_sha256 = ["{tokens.digest(token)}"]\n'
    )
    return text, {"root": token}
