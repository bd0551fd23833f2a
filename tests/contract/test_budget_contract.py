"""What a budget keeps is seen by every process that shares its database, whichever that is."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from nanobot.bus.events import Address, InboundMessage, Sender
from nanobot.config.schema import Config, PersonBudgetConfig, PriceConfig
from nanobot.messages import AssistantMessage, Text, Usage
from nanobot.money.budget import Budget
from nanobot.providers.base import ProviderInfo
from nanobot.session.ledger import Ledger
from tests.contract.conftest import HandClock
from tests.fakes.budget import capped

DEAR = ProviderInfo("openai", "dear")
OWNER = InboundMessage(Address("telegram", "1"), Sender("1", role="owner"), "", direct=True)
ANN = InboundMessage(Address("telegram", "2"), Sender("2", role="user"), "", direct=True)


async def test_several_processes_stop_at_one_cap_warn_once_and_see_it_change(ledger: Ledger, clock: HandClock) -> None:
    def midnight() -> datetime:
        at = clock.at.astimezone(ZoneInfo("Asia/Tokyo"))
        return at.replace(hour=0, minute=0, second=0, microsecond=0)

    def process() -> Budget:
        config = Config(budget=capped((2.0, 30.0), (1.0, None)), prices={"dear": PriceConfig(1, 1)})
        return Budget(config, ledger, midnight)

    async def spend(budget: Budget, payer: InboundMessage, usd: float) -> None:
        usage = budget.charge(payer, DEAR, "dear", Usage(input=round(usd * 1e6), requests=1))
        one = AssistantMessage((Text("so"),), model="dear", usage=usage, person=payer.person, cause="chat")
        session = await ledger.sessions.current(payer.address.key)
        await ledger.sessions.append(session.id, (one,))

    first = process()
    await spend(first, OWNER, 0.7)
    await spend(first, ANN, 1.0)
    assert (await process().judge(ANN, DEAR)).text.startswith("Your budget for today is used up: 1.00 of 1.00 USD.")
    assert (await process().judge(OWNER, DEAR)).kind == "warn"
    assert (await process().judge(OWNER, DEAR)).kind == "ok"
    await spend(process(), OWNER, 0.4)
    assert (await process().judge(OWNER, DEAR)).kind == "stop"
    await process().raise_today(0.5)
    assert (await process().judge(OWNER, DEAR)).kind == "ok"
    await process().set_caps(ANN.person, PersonBudgetConfig(3.0, None))
    assert (await process().judge(ANN, DEAR)).kind == "warn"
    clock.at += timedelta(days=1)
    assert await process().overview() == "today 0.00 of 2.00 USD; this month 2.10 of 30.50 USD"
