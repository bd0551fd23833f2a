"""`nanobot demo`: the agent and its web tools on a small web that travels with it; needs no network and no key."""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from nanobot.app import Launch, Nanobot
from nanobot.cli.agent_command import Setup, conversation, set_up, writer_for
from nanobot.cli.oneshot import UserPrompt, ask
from nanobot.cli.terminal import somebody_is_here
from nanobot.demo.web import DemoWeb, demo_config
from nanobot.errors import UsageError
from nanobot.providers.vendors import VENDORS
from nanobot.utils.host import shipped
from nanobot.utils.text import printable
from nanobot.utils.translation import N_, _, sentences

# English: the pages that answer it are
QUESTION = "When is high tide in Port Ellery on 6 June, and when does the last ferry to Skerrow leave that day?"
_SHOWN = N_("Shown: the real agent, its search, its guarded reading and its checked sources, on a web of its own.")
_NOTHING_SENT = N_("Nothing left this machine, and nothing of it was kept.")
_MODEL_ASKED = N_("Only {model} was asked, and nothing of it was kept here.")
_NEXT = N_('Ask the real web:  nanobot -m "What changed in the newest Python release?"')


def run_demo(args: argparse.Namespace) -> int:
    """Answer one question, or talk, on the demo's web; the exit code. Everything it writes goes with its end."""
    if args.chat and not somebody_is_here():
        raise UsageError(_("--chat needs a terminal to talk in. Without it, `nanobot demo` answers one question."))
    with TemporaryDirectory(prefix="nanobot-demo-") as home, DemoWeb(shipped("docs")) as web:
        direct = dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1")
        env = {**os.environ, "NANOBOT_HOME": home, "NANOBOT_CONFIG": "", **direct}
        config = Path(home) / "config.json"
        config.write_text(json.dumps(demo_config(web.url, lookup=not (args.model or _has_key(env)))), encoding="utf-8")
        config.chmod(0o600)
        return asyncio.run(_run(args, set_up(args, env)))


async def _run(args: argparse.Namespace, setup: Setup) -> int:
    launch = Launch(args.model or "", args.ephemeral, setup.env)
    async with await Nanobot.from_config(setup.loaded, paths=setup.paths, launch=launch) as app:
        if args.chat:
            code = await conversation(args, setup, app)
        else:
            text = " ".join(args.words) or QUESTION
            sys.stderr.write(printable(f"> {text}\n"))
            code = await ask(app, UserPrompt(text), writer_for(args, setup.env))
        info = app.provider_info
        sent = _(_MODEL_ASKED, model=info.model) if info.capabilities.language_model else _(_NOTHING_SENT)
        sys.stderr.write(f"\n{sentences(_(_SHOWN), sent)}\n{_(_NEXT)}\n")
        return code


def _has_key(env: Mapping[str, str]) -> bool:
    return any(env.get(name, "").strip() for vendor in VENDORS for name in vendor.keys)
