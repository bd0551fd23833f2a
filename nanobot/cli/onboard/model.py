"""The first question: who answers. What is found on this machine, a key that is pasted, an address, or nobody yet."""

import asyncio
import os
import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from msgspec.structs import replace

from nanobot.cli.onboard.plans import NO_MODEL, ModelPlan, found_models, model_in_words
from nanobot.cli.onboard.settings import Settings
from nanobot.cli.onboard.talk import Talk, is_secret
from nanobot.errors import NanobotError
from nanobot.providers.vendors import BY_NAME, VENDORS, Vendor, unsupported, vendor_of, vendor_of_key
from nanobot.utils.text import nearest, sendable

#: Seconds to reach a server that is named by its address.
_REACH_SECONDS = 5.0
#: Errors after which the same answer cannot work.
_WRONG = {"auth", "not_found", "bad_request"}
#: A key as it stands in files of a shell.
_NAMED_KEY = re.compile(r"(?:export\s+)?(?P<name>[A-Z][A-Z0-9_]*)\s*=\s*([\"']?)(?P<key>\S+)\2")
_TITLES = ", ".join(one.title for one in VENDORS[:5])
_HOW = (
    f"A key comes from the pages of a service ({_TITLES} …) and costs by use; paste it here, nothing of it is shown. "
    "A server of your own is named by its address, such as `http://192.168.1.5:8000/v1`."
)


def ask_model(settings: Settings, talk: Talk) -> None:
    """Ask until something works, is kept untried, or nothing is wanted; what is chosen is written."""
    found = asyncio.run(found_models(settings))
    kept = model_in_words(settings)
    if not found:
        talk.note("No key of a service was found, and no local server answers (Ollama, LM Studio, llama.cpp, vLLM).")
    how = f"\n\n{_HOW}"
    while True:
        options = [*([f"keep {kept}"] if kept else []), *(one.told for one in found), NO_MODEL.told]
        listed = "\n".join(f"{place}. {told}" for place, told in enumerate(options, 1))
        talk.say(f"{listed}{how}")
        how = "\n\nChoose once more: a number, a key, an address; `?` says more."
        answer = talk.ask("1", [one.name for one in VENDORS], hide="keys")
        if kept and answer in {"1", "keep"}:
            return
        if answer == "?":
            how = f"\n\n{_HOW} Services: {', '.join(one.name for one in VENDORS if one.hosted)}."
            continue
        plan = _read(answer, (*([NO_MODEL] if kept else []), *found, NO_MODEL), talk)
        if plan is not None and _settled(settings, talk, plan):
            return


def _read(answer: str, plans: Sequence[ModelPlan], talk: Talk) -> ModelPlan | None:
    """What an answer means; None where that was said already and is to be asked again."""
    if named := _NAMED_KEY.fullmatch(answer):  # a line of a shell, with a key in it
        vendor = next((one for one in VENDORS if named["name"] in one.keys), None)
        return _with_key(vendor, named["key"], talk) if vendor else _of_key(named["key"], talk)
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
    key = "".join(talk.ask(hide="all").split())
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
    return ModelPlan(f"your server at {base}", "custom", key="".join(talk.ask(hide="all").split()), base=base)


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
