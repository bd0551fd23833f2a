"""How a turn begins: what its model is told is gathered."""

import asyncio
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial

from loguru import logger

from nanobot.agent import explanations
from nanobot.agent.addresses import KnownAddresses
from nanobot.agent.chats.chat import Chat
from nanobot.agent.chats.services import AgentServices
from nanobot.agent.chats.sessions import hold
from nanobot.agent.context import ContextBuilder, ContextFile, PromptFiles, folder_of
from nanobot.agent.history import Past, speakers
from nanobot.agent.turn import Prompt, Turn
from nanobot.bus.events import Errand, InboundMessage, Notice, TurnFinished
from nanobot.messages import Text, ToolMessage, UserMessage
from nanobot.security.projects import INSTRUCTIONS
from nanobot.security.trust import wrap
from nanobot.session.store import Record
from nanobot.utils.text import one_line, shorten, strip_unsafe
from nanobot.utils.translation import _

#: What a token of the window may take in the store: enough to never leave out what would fit.
STORED_BYTES_PER_TOKEN = 8
#: Tokens of earlier turns, of all chats together, that stay in memory.
PAST_TOKENS = 3_000_000
_TITLE_WIDTH = 60
#: Tools for files, without which a helper need not know where they are.
_FILES = frozenset({"read_file", "write_file", "list_dir", "exec"})


class Opening:
    """Opens the turns of an agent. What was said before is kept in memory for the chats that spoke last."""

    def __init__(self, services: AgentServices) -> None:
        self._services = services
        self._store = services.store
        #: One thread for all, as many that read a few small files at once keep each other from the processor; and some
        #: for the owner's own turns, which alone read a project and what may be on another disk, which may hang.
        self._reading = [ThreadPoolExecutor(threads, thread_name_prefix="prompts") for threads in (1, 4)]
        self._pasts: dict[str, tuple[Past, int]] = {}  # by chat, and its tokens; the one that spoke last at the end
        self._tokens = 0

    async def open(self, chat: Chat, turn: Turn, records: tuple[Record, ...]) -> TurnFinished | None:
        """Take the session and gather what the model is told; the end of the turn where it cannot begin.

        `records` are what an earlier process kept of this turn.
        """
        context, message = self._services.context, turn.message
        if records:
            take_up(turn, records)
            read = {one.id for one in turn.messages if isinstance(one, UserMessage)}
            chat.steered.update(read - {"", turn.id})
        else:
            turn.session = chat.session or (await self._store.current(chat.key)).id
            turn.title = _title(message)
        if not await hold(self._store, turn):
            return turn.finished("failed", "", explanations.in_use(turn.behind), temporary=True)
        if message.errand is not None:
            turn.prompt = helper_prompt(context, turn, message.errand)
            turn.addresses = KnownAddresses(turn.session)
            turn.addresses.hear("\n".join(message.errand.known))
            return None
        turn.hear(*speakers(turn.messages))
        window = chat.window or turn.provider.info.capabilities.window
        past = await self._past(chat, turn, window * STORED_BYTES_PER_TOKEN, records[0].seq if records else 0)
        folder = folder_of(message, turn.authority)
        owner = "" if turn.authority == "owner" else turn.message.person
        skills = await self._services.skills() if folder == "" else ""
        look = partial(copy_context().run, self._read, turn, window, folder, skills)
        reading, system, foreign, tail = await asyncio.get_running_loop().run_in_executor(
            self._reading[folder == ""], look
        )
        turn.prompt = Prompt(
            (
                *await self._answers(turn),
                *(() if records else await self._heard(turn)),
                context.user_message(message),
            ),
            past,
            system,
            tail,
            await self._services.private(message.address.key),
            context.summing,
            partial(self._services.forgets, owner) if self._services.forgets is not None else None,
        )
        turn.meet(foreign)
        turn.addresses = chat.addresses.copy() if message.aside else chat.addresses
        turn.addresses.hear_prompt(system)
        if folder == "" and message.cause == "chat" and not message.aside:
            await self._announce(chat, turn, reading)
        return None

    def _read(
        self, turn: Turn, window: int, folder: str | None, skills: str
    ) -> tuple[PromptFiles, str, tuple[str, ...], str]:
        """What the files say, the system prompt, labels of what stands in it from outside, and the tail."""
        context, role = self._services.context, turn.authority
        reading = context.read(window, role=role, folder=folder)
        return (
            reading,
            context.system(reading, own=folder == "", skills=skills),
            context.foreign(reading, folder),
            self._tail(turn, reading.files),
        )

    async def _answers(self, turn: Turn) -> tuple[UserMessage, ...]:
        """What helpers in the background have answered for this chat since its last turn."""
        kept = turn.message.cause == "chat" and not turn.message.aside
        helpers = self._services.helpers() if kept else None
        return await helpers.take_answers(turn.message) if helpers is not None else ()

    async def _heard(self, turn: Turn) -> tuple[UserMessage, ...]:
        """What reminders, watches and tasks have said in this chat since somebody spoke there."""
        message = turn.message
        if self._services.heard is None or message.cause != "chat" or message.aside:
            return ()
        heard = await self._services.heard(message.address.lasting)
        said = [(one.foreign, f"{one.at:%Y-%m-%d %H:%M} UTC, {one.by}: {strip_unsafe(one.text)}") for one in heard]
        own = "\n".join(line for foreign, line in said if not foreign)
        others = "\n\n".join(line for foreign, line in said if foreign)
        told = ((own, False), (wrap(others, "said") if others else "", True))
        return tuple(
            UserMessage(
                (Text(f"{explanations.HEARD}\n{text}"),), "notice", speaker=message.sender.role, untrusted=foreign
            )
            for text, foreign in told
            if text
        )

    def _tail(self, turn: Turn, files: Iterable[ContextFile]) -> str:
        """What changes between requests, with what fits of the person's memory besides the `files` of the prompt."""
        context, message = self._services.context, turn.message
        tail = context.tail(message.address, message.sender)
        shown = frozenset(file.name for file in files if not file.cut)
        found = self._services.remember(message, turn.authority, shown)
        return f"{tail}\n{found}" if found else tail

    async def _announce(self, chat: Chat, turn: Turn, reading: PromptFiles) -> None:
        """Say which instructions of inner folders the prompt holds, once, and which of all have changed since."""
        context, known = self._services.context, chat.instructions
        now = {f"{context.workspace}/{file.name}": file.text for file in reading.files if file.name in INSTRUCTIONS}
        now |= {f"{one.folder}/{one.file.name}": one.file.text for one in reading.instructions}
        inner = {f"{one.folder}/{one.file.name}" for one in reading.instructions if context.nested(one)}
        for path, text in now.items():
            if path in inner - known.keys():
                await turn.emit(Notice(_("The instructions in {path} are read.", path=path)))
            elif known.get(path, hash(text)) != hash(text):
                await turn.emit(Notice(_("The instructions in {path} have changed and are read anew.", path=path)))
            known[path] = hash(text)

    async def _past(self, chat: Chat, turn: Turn, size: int, before: int) -> Past:
        """What was said in the session of a turn, at most `size` bytes, and up to the record `before`, if any."""
        new = chat.addresses.session != turn.session  # this process has not served it yet
        past, held = self._pasts.pop(chat.key, (Past(), 0))
        self._tokens -= held
        if new or before or (past.session, past.role, past.size) != (turn.session, turn.authority, size):
            past = Past(turn.session, turn.authority, size, shared=not turn.message.direct)
        records = await self._store.records(turn.session, size=size, before=before, after=past.seq)
        if past.seq and not past.goes_on_with(records):
            past = Past(turn.session, turn.authority, size, shared=not turn.message.direct)
            records = await self._store.records(turn.session, size=size)
        past.add(records)
        if chat.unsummed:  # the person has taken back a summary: what there is now is kept until it has grown
            past.stubborn, chat.unsummed = past.tokens, False
        if not before:
            self._pasts[chat.key] = past, past.tokens
            self._tokens += past.tokens
        while len(self._pasts) > 1 and self._tokens > PAST_TOKENS:
            self._tokens -= self._pasts.pop(next(iter(self._pasts)))[1]
        if new:
            chat.addresses = KnownAddresses(turn.session)
            chat.addresses.take((*(record.message for record in records), *turn.messages))
        return past


def helper_prompt(context: ContextBuilder, turn: Turn, errand: Errand) -> Prompt:
    """What a helper begins with: its task, which is the model's words and not a person's, and nothing that was said."""
    turn.tools = frozenset(errand.tools)
    turn.meet(errand.foreign)
    asked = UserMessage((Text(errand.task),), "notice", speaker=turn.authority, untrusted=bool(errand.foreign))
    system = context.helper(workspace=not turn.tools.isdisjoint(_FILES))
    return Prompt((asked,), system=system, tail=context.tail(turn.message.address), privacy=errand.privacy)


def take_up(turn: Turn, records: tuple[Record, ...]) -> None:
    """Go on with what an earlier process kept of a turn."""
    messages = tuple(record.message for record in records if record.kind == "message")
    last = max((place for place, one in enumerate(records) if one.message.role == "assistant"), default=0)
    begun = (one.message for one in records[last:] if one.kind == "intent")  # those before have their results
    turn.take_up(messages, frozenset(call.call_id for call in begun if isinstance(call, ToolMessage)))
    logger.info("turn {} goes on after {} messages", turn.id, len(messages))


def _title(message: InboundMessage) -> str:
    text = one_line(message.content)
    return shorten(text, _TITLE_WIDTH) if text else "(no text)"
