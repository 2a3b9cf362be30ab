"""Every operation there is, in one table (api.md §1)."""

from typing import Final

from commands import (
    budgets,
    confirming,
    evicting,
    extensions,
    flavors,
    identity,
    image_content,
    image_signers,
    images,
    instance_verbs,
    instances,
    join_tokens,
    joining,
    leases,
    node_command_ends,
    node_commands,
    node_provision,
    node_service,
    nodes,
    offerings,
    pools,
    projects,
    quotas,
    reservations,
    sites,
)
from domain import operation
from queries import (
    allocations,
    audit,
    audit_events,
    audit_state,
    bookings,
    capacity,
    capacity_timeline,
    devices,
    events,
    evidence,
    iam,
    instance_console,
    node_history,
    nodes_count,
    nodes_map,
    preview,
    reservation_states,
    usage,
    usage_timeline,
)
from queries import budgets as budget_queries
from queries import extensions as extension_queries
from queries import flavors as flavor_queries
from queries import image_signers as image_signer_queries
from queries import images as image_queries
from queries import instances as instance_queries
from queries import join_tokens as join_token_queries
from queries import leases as lease_queries
from queries import node_commands as node_command_queries
from queries import nodes as node_queries
from queries import offerings as offering_queries
from queries import pools as pool_queries
from queries import projects as project_queries
from queries import quotas as quota_queries
from queries import reservations as reservation_queries
from queries import sites as site_queries

OPERATIONS: Final[dict[str, operation.Operation]] = operation.table(
    sites.OPERATIONS,
    site_queries.OPERATIONS,
    pools.OPERATIONS,
    pool_queries.OPERATIONS,
    offerings.OPERATIONS,
    offering_queries.OPERATIONS,
    evicting.OPERATIONS,
    projects.OPERATIONS,
    project_queries.OPERATIONS,
    quotas.OPERATIONS,
    quota_queries.OPERATIONS,
    budgets.OPERATIONS,
    budget_queries.OPERATIONS,
    flavors.OPERATIONS,
    flavor_queries.OPERATIONS,
    images.OPERATIONS,
    image_queries.OPERATIONS,
    image_signers.OPERATIONS,
    image_signer_queries.OPERATIONS,
    join_tokens.OPERATIONS,
    join_token_queries.OPERATIONS,
    joining.OPERATIONS,
    nodes.OPERATIONS,
    identity.OPERATIONS,
    node_service.OPERATIONS,
    node_provision.OPERATIONS,
    node_queries.OPERATIONS,
    nodes_map.OPERATIONS,
    nodes_count.OPERATIONS,
    node_history.OPERATIONS,
    node_commands.OPERATIONS,
    node_command_ends.OPERATIONS,
    node_command_queries.OPERATIONS,
    devices.OPERATIONS,
    capacity.OPERATIONS,
    capacity_timeline.OPERATIONS,
    reservations.OPERATIONS,
    reservation_queries.OPERATIONS,
    reservation_states.OPERATIONS,
    confirming.OPERATIONS,
    extensions.OPERATIONS,
    extension_queries.OPERATIONS,
    instances.OPERATIONS,
    instance_verbs.OPERATIONS,
    instance_queries.OPERATIONS,
    instance_console.OPERATIONS,
    preview.OPERATIONS,
    allocations.OPERATIONS,
    bookings.OPERATIONS,
    usage.OPERATIONS,
    usage_timeline.OPERATIONS,
    image_content.OPERATIONS,
    leases.OPERATIONS,
    lease_queries.OPERATIONS,
    audit.OPERATIONS,
    evidence.OPERATIONS,
    audit_events.OPERATIONS,
    audit_state.OPERATIONS,
    events.OPERATIONS,
    iam.operations(lambda: OPERATIONS.values()),
)

ACTIONS: Final = frozenset(operation.action for operation in OPERATIONS.values() if operation.on)
"""Every action that is decided on: a policy may name no other."""
