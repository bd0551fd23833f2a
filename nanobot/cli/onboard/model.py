"""The first question: who answers. What is found on this machine, a key that is pasted, an address, or nobody yet."""

import asyncio
import os
from collections.abc import Sequence
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from nanobot.cli.onboard.settings import Change, Settings
from nanobot.cli.onboard.talk import Talk, is_secret
from nanobot.errors import NanobotError
from nanobot.providers.local import probe, usual_roots
from nanobot.providers.vendors import BY_NAME, VENDORS, Vendor, unsupported, vendor_of, vendor_of_key
from nanobot.utils.text import nearest, sendable

_DEFAULTS = ("agents", "defaults")
#: Seconds to reach a server that is named by its address.
_REACH_SECONDS = 5.0
_NONE = "none for now: nanobot searches the web and quotes what it finds, without a model"
#: Errors after which the same answer cannot work.
_WRONG = {"auth", "not_found", "bad_request"}
_TITLES = ", ".join(one.title for one in VENDORS[:5])
_HOW = (
    f"A key comes from the pages of a service ({_TITLES} …) and costs by use; paste it here, nothing of it is shown. "
    "A server of your own is named by its address, such as `http://192.168.1.5:8000/v1`."
)


class ModelPlan(Struct, frozen=True):
    """Whom to ask. `told` says it in a line; `models` are those that it is known to offer; `key` and `base` are
    written where they are not empty. Without a `provider` the name of the model tells it."""

    told: str
    provider: str = ""
    model: str = ""
    key: str = ""
    base: str = ""
    models: tuple[str, ...] = ()

    def changes(self, settings: Settings) -> list[Change]:
        """What is to be written for it."""
        kept = settings.loaded.config.agents.defaults
        found: list[Change] = [((*_DEFAULTS, "provider"), self.provider or "auto")]
        if self.model or kept.model:
            found.append(((*_DEFAULTS, "model"), self.model))
        if kept.model_preset not in {"", "default"}:
            found.append(((*_DEFAULTS, "modelPreset"), "default"))  # else the preset would win
        for name, value in (("apiKey", self.key), ("apiBase", self.base)):
            if value:
                found.append((("providers", self.provider, name), value))
        return found


NO_MODEL = ModelPlan(_NONE, "lookup")


async def found_models(settings: Settings) -> tuple[ModelPlan, ...]:
    """What could answer at once: keys in the environment, then servers on this machine."""
    found = []
    for vendor in VENDORS:
        name = next((name for name in vendor.keys if settings.env.get(name, "").strip()), "")
        if name and vendor.default_model:
            found.append(ModelPlan(f"{vendor.title}, with the key {name} of the environment", vendor.name))
    for server in await probe(usual_roots(settings.env)):
        if server.best:
            names = tuple(one.id for one in server.models)
            count = f"{len(names)} models" if len(names) > 1 else names[0]
            told = f"{BY_NAME[server.vendor].title} on this machine ({server.root}, {count})"
            found.append(ModelPlan(told, server.vendor, server.best.id, models=names))
    return tuple(found)


def ask_model(settings: Settings, talk: Talk) -> None:
    """Ask until something works, is kept untried, or nothing is wanted; what is chosen is written."""
    found = asyncio.run(found_models(settings))
    kept = model_in_words(settings)
    if not found:
        talk.note("No key is in the environment, and no local server answers (Ollama, LM Studio, llama.cpp, vLLM).")
    how = f"\n\n{_HOW}"
    while True:
        options = [*([f"keep {kept}"] if kept else []), *(one.told for one in found), _NONE]
        listed = "\n".join(f"{place}. {told}" for place, told in enumerate(options, 1))
        talk.say(f"{listed}{how}")
        how = "\n\nChoose once more: a number, a key, an address; `?` says more."
        answer = talk.ask("1", [one.name for one in VENDORS])
        if kept and answer in {"1", "keep"}:
            return
        if answer == "?":
            how = f"\n\n{_HOW} Services: {', '.join(one.name for one in VENDORS if one.hosted)}."
            continue
        plan = _read(answer, (*([NO_MODEL] if kept else []), *found, NO_MODEL), talk)
        if plan is not None and _settled(settings, talk, plan):
            return


def model_in_words(settings: Settings) -> str:
    """What the configuration says of the model, for a line; empty where it says nothing."""
    kept = settings.loaded.config.agents.defaults
    preset = "" if kept.model_preset in {"", "default"} else f"the preset {kept.model_preset}"
    if kept.provider == "lookup":
        return "no model (lookup)"
    at = f"at {kept.provider}" if kept.provider != "auto" else ""
    named = " ".join(filter(None, (kept.model or ("its usual model" if at else ""), at)))
    return preset or named or ", ".join(settings.loaded.config.providers)


def _read(answer: str, plans: Sequence[ModelPlan], talk: Talk) -> ModelPlan | None:
    """What an answer means; None where that was said already and is to be asked again."""
    if answer.isdecimal():
        if 1 <= int(answer) <= len(plans):
            return plans[int(answer) - 1]
        talk.say(f"There is no {answer} in the list.")
        return None
    if answer.casefold() in {"none", "no", "n", "skip", "lookup"}:
        return NO_MODEL
    if vendor := vendor_of(answer):
        return next((one for one in plans if one.provider == vendor.name), None) or _of_vendor(vendor, talk)
    if is_secret(answer):
        return _of_key("".join(answer.split()), talk)
    if "://" in answer or (":" in answer and answer.rpartition(":")[2].partition("/")[0].isdecimal()):
        return _of_address(answer, talk)
    near = nearest(answer, [*BY_NAME, *(one.title for one in VENDORS)])
    talk.say(unsupported(answer) or f"{answer!r} is none of these." + (f" Did you mean {near}?" if near else ""))
    return None


def _of_vendor(vendor: Vendor, talk: Talk) -> ModelPlan | None:
    if vendor.local:
        talk.say(f"{vendor.title} does not answer on this machine. Start it, or write its address.")
        return None
    if not vendor.base_url:
        talk.say("Write the address of the server, such as `http://192.168.1.5:8000/v1`.")
        return None
    talk.say(f"Paste the key of {vendor.title}; nothing of it is shown. Enter goes back.")
    key = "".join(talk.ask(secret=True).split())
    return _with_key(vendor, key, talk) if key else None


def _of_key(key: str, talk: Talk) -> ModelPlan | None:
    vendor = vendor_of_key(key)
    while vendor is None:  # never tried at one service after the other: each would see a key that is not its own
        talk.say("Its form does not tell whose key this is. Which service is it from? Enter goes back.")
        answer = talk.ask(words=[one.name for one in VENDORS if one.hosted])
        if not answer:
            return None
        hosted = {name: one for one in VENDORS if one.hosted for name in (one.name, one.title)}
        vendor = vendor_of(answer) or hosted.get(nearest(answer, hosted) or "")
        if vendor is None or not vendor.hosted:
            talk.say(unsupported(answer) or f"There is no service {answer!r}. Known: {', '.join(hosted)}.")
            vendor = None
    return _with_key(vendor, key, talk)


def _with_key(vendor: Vendor, key: str, talk: Talk) -> ModelPlan | None:
    if not sendable(key):
        talk.say("No request can carry this key: it holds a character that is no printable ASCII. Copy it again.")
        return None
    return ModelPlan(f"{vendor.title}, with a key of {len(key)} characters", vendor.name, key=key)


def _of_address(answer: str, talk: Talk) -> ModelPlan | None:
    base = answer if "://" in answer else f"http://{answer}"
    try:
        parts = urlsplit(base)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        host, port = "", 0
    if not host or parts.scheme not in {"http", "https"}:
        talk.say(f"{answer!r} is no address of a server. It looks like `http://192.168.1.5:8000/v1`.")
        return None
    base = base.rstrip("/") if parts.path.strip("/") else f"{base.rstrip('/')}/v1"
    if why := asyncio.run(_unreachable(host, port)):
        talk.say(f"Nothing answers at {host}, port {port}: {why}. Is it started, and does it listen for others?")
        return None
    talk.say("Does the server want a key? Paste it; Enter: no.")
    return ModelPlan(f"your server at {base}", "custom", key="".join(talk.ask(secret=True).split()), base=base)


async def _unreachable(host: str, port: int) -> str:
    """Why nothing can be reached there; empty where something listens."""
    try:
        async with asyncio.timeout(_REACH_SECONDS):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        return f"no answer within {_REACH_SECONDS:.0f} s"
    except OSError as error:
        return os.strerror(error.errno) if error.errno else str(error)
    writer.close()
    return ""


def _settled(settings: Settings, talk: Talk, plan: ModelPlan) -> bool:
    """Try it and write it; False where the person goes back."""
    if plan == NO_MODEL:
        if model_in_words(settings) or asyncio.run(found_models(settings)):
            settings.write(plan.changes(settings))  # else a key that comes later would not be taken
        talk.say("No model then. Run `nanobot onboard` again whenever you have one.")
        return True
    plan = _with_model(settings, talk, plan)
    talk.note(f"Trying {plan.model or plan.told} …")
    try:
        finding, info = asyncio.run(settings.try_model(plan.changes(settings)))
    except NanobotError as error:
        talk.say(str(error))
        return False
    if info is not None and finding.facts.get("error") == "auth":
        talk.say(f"✗ {finding.words}. The key was refused: copy it again, in one piece, or choose something else.")
        return False
    talk.say("\n".join(finding.lines[: 1 if info is None else None]))
    if info is not None:
        plan = replace(plan, model=plan.model or info.model)
    if finding.state == "bad" and (info is None or finding.facts.get("error") in _WRONG):
        return False
    if finding.state != "ok" and not talk.agreed("Keep it all the same? y keeps it; Enter asks again."):
        return False
    settings.write(plan.changes(settings))
    if BY_NAME[plan.provider].hosted and not plan.key:
        talk.note("The key stays in the environment; a gateway that is started elsewhere needs it there, too.")
    return True


def _with_model(settings: Settings, talk: Talk, plan: ModelPlan) -> ModelPlan:
    """The plan with a model, asked for where several are there and none is known to be the usual one."""
    vendor = BY_NAME[plan.provider]
    names = plan.models
    if not (names or vendor.default_model):
        talk.note(f"Asking {plan.told} for its models …")
        names = asyncio.run(settings.offered(plan.changes(settings)))
        if not names:
            talk.say("It lists no models. What is the model called that it is to be asked for?")
            return replace(plan, model=talk.ask())
    if len(names) > 1:
        return replace(plan, model=talk.chosen_model(names, plan.model or names[0], whose=vendor.title))
    return replace(plan, model=plan.model or (names[0] if names else ""))
