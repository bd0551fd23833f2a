"""Caps of the budget in few words."""

from nanobot.config.schema import BudgetConfig, PersonBudgetConfig

Amounts = tuple[float | None, float | None]
NO_CAP = (None, None)


def capped(all_: Amounts = NO_CAP, person: Amounts = NO_CAP, tokens: int | None = None) -> BudgetConfig:
    """Most USD in a day and in a month, of all together and of each person; no others."""
    return BudgetConfig(*all_, PersonBudgetConfig(*person), tokens_per_day=tokens)
