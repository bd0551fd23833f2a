"""The list of commands that Telegram offers behind its menu button, for each person in their language."""

import re
from collections.abc import Iterable, Mapping

from loguru import logger
from telegram import Bot, BotCommand, BotCommandScopeAllPrivateChats, BotCommandScopeChat
from telegram.error import TelegramError

from nanobot.bus.events import Role
from nanobot.channels.base import CommandSummary
from nanobot.channels.telegram.bot import TelegramLine
from nanobot.command.router import CommandRouter
from nanobot.utils.text import shorten

_NAME = re.compile(r"[a-z0-9_]{1,32}")
_MOST = 100
_SUMMARY_CHARS = 256
_DEADLINE = 10.0


async def register_commands(bot: Bot, commands: Iterable[CommandSummary], language: str = "", *, chat: int = 0) -> None:
    """Set the menu of one chat, or of every private chat in a language, or of everybody. Raises `TelegramError`.

    `language` is a code such as `de` or `pt-br`; where it is not translated the summaries are in English.
    """
    code = language.partition("-")[0].casefold()
    words = TRANSLATIONS.get(code, {})
    shown = [
        BotCommand(command.name, shorten(words.get(command.name, command.summary), _SUMMARY_CHARS))
        for command in commands
        if _NAME.fullmatch(command.name)
    ]
    if chat:
        await bot.set_my_commands(shown[:_MOST], scope=BotCommandScopeChat(chat), read_timeout=_DEADLINE)
    elif code:
        everyone = BotCommandScopeAllPrivateChats()
        await bot.set_my_commands(shown[:_MOST], scope=everyone, language_code=code[:2], read_timeout=_DEADLINE)
    else:
        await bot.set_my_commands(shown[:_MOST], read_timeout=_DEADLINE)


class CommandMenu:
    """Sets the menu of an owner's chat, and of users once per language: a call for each chat would be a flood."""

    def __init__(self, line: TelegramLine, router: CommandRouter) -> None:
        self._line = line
        self._router = router
        self._shown: dict[str, tuple[Role, str]] = {}

    async def start(self) -> None:
        """Everybody else sees what a guest may do."""
        await self._set("guest", "", 0)

    async def offer(self, chat: str, role: Role, language: str) -> None:
        """Set the menu of a private chat. A failure is only logged: commands work without a menu."""
        if role == "user":
            code = language.partition("-")[0] or "en"
            chat, place, language = f"language {code}", 0, code
        elif role == "owner":
            place = int(chat)
        else:
            return
        if self._shown.get(chat) == (role, language):
            return
        self._shown[chat] = (role, language)
        if not await self._set(role, language, place):
            del self._shown[chat]

    async def _set(self, role: Role, language: str, chat: int) -> bool:
        try:
            await register_commands(self._line.bot, self._router.commands(role, "telegram"), language, chat=chat)
        except TelegramError as error:
            logger.info("the menu of commands was not set: {}", type(error).__name__)
            return False
        return True


#: Summaries in other languages, by the first part of Telegram's language code and the command's name.
TRANSLATIONS: Mapping[str, Mapping[str, str]] = {
    "de": {
        "help": "Die Befehle zeigen",
        "status": "Modell, Kontext, Tokens, Werkzeuge und Suchkontingent zeigen",
        "new": "Eine neue Sitzung beginnen und die alte behalten",
        "stop": "Beenden, was gerade läuft",
        "approve": "Eine Frage beantworten",
        "model": "Das Modell zeigen oder ein anderes nehmen",
        "sessions": "Die Sitzungen dieses Chats auflisten",
        "resume": "Zu einer früheren Sitzung zurückkehren",
        "sources": "Zeigen, worauf sich die letzte Antwort stützt",
        "tools": "Die Werkzeuge auflisten, und warum eines fehlt",
        "usage": "Tokens und Kosten von heute und sieben Tagen zeigen",
        "whoami": "Deine Nummer, deine Rolle und diesen Chat zeigen",
        "privacy": "Seiten und Sprache von fremden Diensten fernhalten",
        "hints": "Zeigen oder verbergen, was gerade getan wird",
        "streaming": "Die Antwort beim Schreiben zeigen oder erst am Ende",
        "pair": "Jemanden mit seinem Code einlassen oder alle auflisten",
        "unpair": "Jemanden nicht mehr einlassen",
        "group": "In dieser Gruppe antworten oder nicht",
    },
    "es": {
        "help": "Mostrar los comandos",
        "status": "Mostrar modelo, contexto, tokens, herramientas y cuota de búsqueda",
        "new": "Empezar una sesión nueva y guardar la anterior",
        "stop": "Detener lo que está en marcha",
        "approve": "Responder a una pregunta",
        "model": "Mostrar el modelo o usar otro",
        "sessions": "Listar las sesiones de este chat",
        "resume": "Volver a una sesión anterior",
        "sources": "Mostrar en qué se basa la última respuesta",
        "tools": "Listar las herramientas y por qué falta alguna",
        "usage": "Mostrar tokens y coste de hoy y de siete días",
        "whoami": "Mostrar tu número, tu papel y este chat",
        "privacy": "No enviar páginas ni voz a otros servicios",
        "hints": "Mostrar u ocultar lo que se está haciendo",
        "streaming": "Mostrar la respuesta mientras se escribe o al final",
        "pair": "Dejar entrar a alguien con su código o listar a todos",
        "unpair": "No dejar entrar más a alguien",
        "group": "Responder en este grupo o no",
    },
    "fr": {
        "help": "Afficher les commandes",
        "status": "Afficher modèle, contexte, jetons, outils et quota de recherche",
        "new": "Commencer une nouvelle session et garder l’ancienne",
        "stop": "Arrêter ce qui est en cours",
        "approve": "Répondre à une question",
        "model": "Afficher le modèle ou en choisir un autre",
        "sessions": "Lister les sessions de cette discussion",
        "resume": "Revenir à une session précédente",
        "sources": "Montrer sur quoi repose la dernière réponse",
        "tools": "Lister les outils et dire pourquoi il en manque un",
        "usage": "Afficher jetons et coût du jour et de sept jours",
        "whoami": "Afficher votre numéro, votre rôle et cette discussion",
        "privacy": "Ne pas confier pages et voix à d’autres services",
        "hints": "Montrer ou cacher ce qui est en train d’être fait",
        "streaming": "Montrer la réponse pendant l’écriture ou à la fin",
        "pair": "Laisser entrer quelqu’un par son code ou lister tout le monde",
        "unpair": "Ne plus laisser entrer quelqu’un",
        "group": "Répondre dans ce groupe ou non",
    },
    "ru": {
        "help": "Показать команды",
        "status": "Показать модель, контекст, токены, инструменты и лимит поиска",
        "new": "Начать новую сессию, старая сохранится",
        "stop": "Остановить то, что выполняется",
        "approve": "Ответить на вопрос",
        "model": "Показать модель или выбрать другую",
        "sessions": "Список сессий этого чата",
        "resume": "Вернуться к прежней сессии",
        "sources": "На чём основан последний ответ",
        "tools": "Список инструментов и почему какого-то нет",
        "usage": "Токены и расходы за сегодня и за семь дней",
        "whoami": "Показать ваш номер, роль и этот чат",
        "privacy": "Не отдавать страницы и речь другим сервисам",
        "hints": "Показывать или скрывать ход работы",
        "streaming": "Показывать ответ по мере написания или в конце",
        "pair": "Впустить человека по коду или показать всех",
        "unpair": "Больше не впускать человека",
        "group": "Отвечать в этой группе или нет",
    },
    "zh": {
        "help": "显示命令",
        "status": "显示模型、上下文、令牌、工具和搜索额度",
        "new": "开始新会话，旧会话保留",
        "stop": "停止正在进行的操作",
        "approve": "回答一个问题",
        "model": "显示模型或改用其他模型",
        "sessions": "列出此聊天的会话",
        "resume": "回到以前的会话",
        "sources": "显示上一个回答的依据",
        "tools": "列出工具，以及为何缺少某个工具",
        "usage": "显示今天和七天的令牌与费用",
        "whoami": "显示你的编号、角色和此聊天",
        "privacy": "不把网页和语音交给其他服务",
        "hints": "显示或隐藏正在进行的操作",
        "streaming": "边写边显示回答，或写完再显示",
        "pair": "凭代码让某人加入，或列出所有人",
        "unpair": "不再让某人加入",
        "group": "是否在此群组中回答",
    },
}
