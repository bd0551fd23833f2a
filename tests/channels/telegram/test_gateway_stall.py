"""A program that hangs as a whole says so itself."""

import json
import signal
from pathlib import Path

from tests.channels.telegram.gateway import furnished, running
from tests.fakes import stall
from tests.fakes.waiting import until


async def test_a_blocked_gateway_is_ill_in_its_health_file_and_the_log_has_the_line(tmp_path: Path) -> None:
    async with furnished(tmp_path, after="Still here.") as (telegram, _, ada, home):
        go_on = tmp_path / "go_on"
        root = Path(__file__).parents[3]
        env = {"PYTHONPATH": f"{Path(stall.__file__).parent}:{root}", "STALL_UNTIL": str(go_on)}

        def health() -> dict[str, object]:
            value: dict[str, object] = json.loads((home.home / "gateway.json").read_text(encoding="utf-8"))
            return value

        async with running(home, env=env) as gateway:
            await ada.asks("hello", lambda: "bot: Still here." in telegram.visible(ada.chat))
            gateway.process.send_signal(signal.SIGUSR1)
            await until(lambda: health()["state"] == "stalled")
            assert health()["ok"] is False
            log = (home.home / "logs" / "nanobot.log").read_text(encoding="utf-8")
            assert "the event loop has been blocked" in log
            assert "in stand_still" in log
            go_on.touch()
            await until(lambda: health()["state"] == "polling")
            assert health()["ok"] is True
            await ada.asks("are you there?", lambda: telegram.visible(ada.chat).count("bot: Still here.") == 2)
