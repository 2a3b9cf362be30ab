"""Every page of the console, in the order in which the navigation offers them."""

from typing import Final

from .page import File, Page
from .pages import (
    audit,
    calendar,
    flavors,
    fleet,
    images,
    instances,
    nodes,
    offerings,
    pools,
    projects,
    quotas,
    reservations,
    reserve,
    sites,
    usage,
)

PAGES: Final[tuple[Page, ...]] = (
    *fleet.PAGES,
    *calendar.PAGES,
    *reserve.PAGES,
    *reservations.PAGES,
    *instances.PAGES,
    *flavors.PAGES,
    *images.PAGES,
    *nodes.PAGES,
    *sites.PAGES,
    *pools.PAGES,
    *offerings.PAGES,
    *projects.PAGES,
    *quotas.PAGES,
    *usage.PAGES,
    *audit.PAGES,
)

PARTS: Final[tuple[Page, ...]] = (*reserve.PARTS, *instances.PARTS)
"""What htmx asks for by itself."""

FILES: Final[tuple[File, ...]] = (*fleet.FILES, *usage.FILES)
"""Data for scripts, and downloads."""
