"""The budgets that this system keeps itself, behind the commands' port."""

from collections.abc import Sequence

from adapters.postgres.pool import Pool
from domain import budget
from projections.budgets import ACCOUNTS


class Budgets:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def accounts(self, scopes: Sequence[str]) -> list[budget.Account]:
        with self._pool.connection() as connection:
            rows = connection.execute(ACCOUNTS, (list(scopes),), prepare=True).fetchall()
        known = {
            scope: budget.Account(kind, gpu_ms, spent, committed, from_, until)
            for scope, kind, gpu_ms, from_, until, spent, committed in rows
            if gpu_ms is not None
        }
        return [known[scope] for scope in scopes if scope in known]
