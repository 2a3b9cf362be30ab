"""Every projection there is, in one table."""

from typing import Final

from projections import (
    audit_events,
    bookings,
    bookings_past,
    budgets,
    budgets_past,
    catalog,
    device_counts,
    devices,
    drafts,
    extensions,
    flavors,
    gates,
    images,
    instances,
    join_tokens,
    keys,
    log_time,
    node_commands,
    nodes,
    offerings,
    pools,
    projects,
    queue,
    quotas,
    quotas_past,
    reservations,
    sites,
    usage,
)
from projections.projection import Projection

INLINE: Final = (
    gates.PROJECTION,
    quotas.PROJECTION,
    budgets.PROJECTION,
    bookings.PROJECTION,
    queue.PROJECTION,
    keys.PROJECTION,
    catalog.PROJECTION,
    drafts.PROJECTION,
)
ASYNC: Final = (
    sites.PROJECTION,
    pools.PROJECTION,
    offerings.PROJECTION,
    projects.PROJECTION,
    flavors.PROJECTION,
    images.PROJECTION,
    join_tokens.PROJECTION,
    nodes.PROJECTION,
    devices.PROJECTION,
    device_counts.PROJECTION,
    node_commands.PROJECTION,
    reservations.PROJECTION,
    extensions.PROJECTION,
    instances.PROJECTION,
    usage.PROJECTION,
    bookings_past.PROJECTION,
    quotas_past.PROJECTION,
    budgets_past.PROJECTION,
    audit_events.PROJECTION,
    log_time.PROJECTION,
)
ALL: Final[tuple[Projection, ...]] = (*INLINE, *ASYNC)
