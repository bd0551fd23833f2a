"""`nanobot onboard`: three questions, each answer tried at once, then a first answer and the bot.

What is answered is written at once, in one step for each question: whoever leaves early keeps a whole configuration.
"""

import argparse
import asyncio
import os
import sys

from nanobot.cli.agent_command import run_agent
from nanobot.cli.gateway import run_gateway
from nanobot.cli.habits import parse
from nanobot.cli.onboard.chat import ask_bot, ask_zone, bot_in_words
from nanobot.cli.onboard.model import ask_model
from nanobot.cli.onboard.options import apply, missing_options, told
from nanobot.cli.onboard.plans import model_in_words
from nanobot.cli.onboard.settings import Settings
from nanobot.cli.onboard.talk import Talk
from nanobot.cli.options import INTERRUPTED
from nanobot.cli.terminal import somebody_is_here
from nanobot.errors import UsageError
from nanobot.migrate.find import homes_there
from nanobot.utils.text import printable
from nanobot.utils.translation import N_, _, apart

_FIRST = N_("In three short sentences: who are you, what can you do for me, and what should I try first?")
_FIRST_WITHOUT = N_("How do I add a model with a key?")
_NO_TERMINAL = N_(
    "There is no terminal to ask in. Say the rest as options: {missing}. Or take what is found, without a question: "
    "nanobot onboard --yes"
)

#: The questions, by the names of `missing_options`.
_QUESTIONS = {
    "model": (N_("Model: who answers you?"), ask_model),
    "bot": (N_("Telegram"), ask_bot),
    "zone": (N_("Time zone"), ask_zone),
}


def run_onboard(args: argparse.Namespace) -> int:
    """Set nanobot up; the exit code."""
    settings = Settings(args, os.environ)
    missing = missing_options(args)
    if missing and not args.yes and not somebody_is_here():
        raise UsageError(_(_NO_TERMINAL, missing=apart(missing.values())))
    known = settings.loaded.exists
    lines = apply(settings, args)
    sys.stdout.write("".join(printable(f"{line}\n") for line in lines))
    if args.yes or not missing:
        sys.stdout.write(printable(told(settings) + "\n"))
        return 0
    talk = Talk()
    try:
        if known:
            talk.say(told(settings) + "\n\n" + _("Enter keeps what is there."))
        else:
            talk.say(_("A few questions, and each answer is tried at once. Ctrl-C leaves, and keeps what is answered."))
        return _talked(settings, talk, args, list(missing), known=known)
    except KeyboardInterrupt:
        kept = _("Left. What you have answered is in {file}. `nanobot onboard` goes on.", file=settings.paths.config)
        talk.say(kept if settings.changed else _("Left. Nothing was changed. `nanobot onboard` goes on."))
        return INTERRUPTED


def _talked(settings: Settings, talk: Talk, args: argparse.Namespace, asked: list[str], *, known: bool) -> int:
    """The questions that no option has answered, and what comes of them; `known`: it was set up before."""
    with talk.unseen():
        for place, name in enumerate(asked, 1):
            title, ask = _QUESTIONS[name]
            talk.gap()
            talk.say(_("**{place} of {count} · {title}**", place=place, count=len(asked), title=_(title)))
            ask(settings, talk)
    talk.gap()
    if known and not settings.changed:
        talk.say(_("Nothing was changed. `nanobot` talks here, `nanobot gateway` answers on Telegram."))
        return 0
    found = asyncio.run(settings.try_search())
    if found is not None:
        talk.say("\n".join(found.lines))
    talk.say(_("Everything is in {file}, which only you can read.", file=settings.paths.config))
    for program, folder in homes_there(os.environ, settings.paths.home):
        holds = N_("{folder} holds what {program} has kept: `nanobot import` shows it, and takes over what you choose.")
        talk.say(_(holds, folder=folder, program=program))
    return _first_answer(settings, talk, args)


def _first_answer(settings: Settings, talk: Talk, args: argparse.Namespace) -> int:
    without = settings.loaded.config.agents.defaults.provider == "lookup" or not model_in_words(settings)
    question = _(_FIRST_WITHOUT) if without else _(_FIRST)
    talk.gap()
    talk.say(_("**You:** {question}", question=question))
    place = [f"--{name}={value}" for name in ("config", "workspace") if (value := getattr(args, name))]
    code = run_agent(parse(["agent", *place, "-m", question]))
    talk.gap()
    if not bot_in_words(settings):
        talk.say(_('Go on with `nanobot`, or ask one question with `nanobot "…"`.'))
        return code
    talk.say(_("Now the bot: this is `nanobot gateway`, which answers on Telegram until Ctrl-C."))
    return run_gateway(parse(["gateway", *place]))
