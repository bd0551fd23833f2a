"""What a turn has really done, and whether its answer claims more.

A claim is a sentence in which the speaker says to have done something now: "I've saved it to notes.md", or promises to
remember something. Questions, offers, negations, what was done earlier and what is quoted are none. Where it is in
doubt, it is no claim: a false alarm under an honest answer is worse than a claim that is missed.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from nanobot.results import ToolResult
from nanobot.security.policy import EffectKind, Verdict
from nanobot.utils.logs import scrub
from nanobot.utils.text import shorten, squeeze, strip_unsafe
from nanobot.utils.translation import N_, _

ClaimKind = Literal["write", "delete", "run", "send", "schedule", "remember"]
#: Effects by which a claim of each kind may be true; a command or a service may do a lot of things.
_ANY: tuple[EffectKind, ...] = ("run", "run_lossy", "run_open", "change")
BACKED_BY: Mapping[ClaimKind, frozenset[str]] = {
    "write": frozenset({"write", "control", *_ANY}),
    "delete": frozenset({"delete", "control", *_ANY}),
    "run": frozenset(_ANY),
    "send": frozenset({"send", "send_other", "run_open", "change"}),
    "schedule": frozenset({"appointment", "control", *_ANY}),
    "remember": frozenset({"memory", "write", "control", *_ANY}),
}
#: What stands under an answer whose claim nothing backs.
NOTES: Mapping[ClaimKind, str] = {
    "write": N_("Nothing was written in this turn, whatever the answer says."),
    "delete": N_("Nothing was deleted in this turn, whatever the answer says."),
    "run": N_("No command was run in this turn, whatever the answer says."),
    "send": N_("Nothing was sent in this turn, whatever the answer says."),
    "schedule": N_("Nothing was scheduled in this turn, whatever the answer says."),
    "remember": N_("Nothing was put into memory in this turn, whatever the answer says."),
}
#: Effects whose receipts are kept as what a turn has done.
CHANGES: frozenset[str] = frozenset().union(*BACKED_BY.values())
#: Characters of one receipt, and of an answer that are judged.
_WIDTH, _JUDGED = 200, 50_000

_FILE = (
    r"(?<![\w/~.-])[\w/~.-]{1,120}\.(?:md|txt|py|js|ts|json|csv|tsv|pdf|docx?|xlsx?|pptx?|odt|html?|css|ya?ml|toml|sh|sql|log|ini|cfg|xml|"
    r"rst|tex|rs|go|c|h|cpp|java|rb|php|png|jpe?g|svg|gif|zip|mp3|ics)\b"
)
_FENCED = re.compile(r"(?ms)^\s*(```|~~~).*?(?:^\s*\1\s*$|\Z)")
_QUOTED = re.compile(
    r"\"[^\"\n]{0,500}\"|“[^“”\n]{0,500}”|„[^„“”\n]{0,500}[“”]|«[^«»\n]{0,500}»|「[^「」\n]{0,500}」|『[^『』\n]{0,500}』|"
    r"‘[^‘’\n]{0,500}’(?!\w)"
)
_SENTENCE = re.compile(r"[^\n]+?(?:[.!?…]+(?=[\s\"”»)*_]|$)|[。！？]|(?=\n)|$)")
#: Ends what a verb is about, in all of the languages: what follows is another deed, or where it was taken from.
_CLAUSE = re.compile(
    r"[,;:—、，；：]|(?<!\w)(?:and|from|about|across|because|which|und|aus|über|weil|et|à partir|sur|sobre|a partir|"
    r"da|su|uit|over|и|из)(?!\w)",
    re.IGNORECASE,
)
_NAME = re.compile(rf"\W*{_FILE}\W*")


#: What a receipt says where others read along, by what was done; a file or a message that came there is seen anyway.
_SHARED: Mapping[str, str] = {
    "send_other": N_("sent something to another chat"),
    "change": N_("called a service"),
}


def shared_receipt(receipt: str, did: Collection[str]) -> str:
    """A receipt for a group: what was done, and to whom or what only where the group sees that itself."""
    told = dict.fromkeys(_(_SHARED[kind]) for kind in did if kind in _SHARED)
    return receipt if set(did) == {"send"} else "\n".join(told or [_("did something")]) if receipt else ""


class _Language(Struct, frozen=True):
    """How one language says that something was done.

    `cues`: one of them stands in every text that has a claim. `says` is the pattern of a claim with the verbs of all
    kinds at `{}`; `things` are what the verb must be about, a file's name besides. In `unless` is what before the verb,
    and in `past` what anywhere in the sentence makes it no claim of now.
    """

    cues: tuple[str, ...]
    says: str
    verbs: Mapping[ClaimKind, str]
    things: Mapping[ClaimKind, str]
    unless: str
    past: str
    promises: str


# English: how answers are worded in each language
_LANGUAGES: Mapping[str, _Language] = {
    "en": _Language(
        ("i ", "i'", "i’"),
        r"\bI(?:['’]ve| have)?(?: (?:just|now|also|successfully|then|went ahead and))* (?:{})\b",
        {
            "write": "wrote|written|created|saved|stored|updated|edited|modified|renamed|overwrote|overwritten|moved",
            "delete": "deleted|removed|erased",
            "run": "ran|run|executed",
            "send": "sent|emailed|messaged|texted|forwarded|notified",
            "schedule": "scheduled|set(?: up)?|booked",
            "remember": "stored|saved|added|recorded|written|noted",
        },
        {
            "write": r"\b(?:files?|folder|directory|document|workspace)\b(?! you| attached)"
            r"|\b(?:saved|stored) (?:it|them|everything)\b",
            "delete": r"\b(?:files?|folder|directory|document|reminder|appointment)\b",
            "run": r"\b(?:tests?|script|command|program|code|build|suite|pytest)\b",
            "send": r"\b(?:message|e-?mail|mail|report|file|reminder|invitation|document)\b"
            r"|emailed|messaged|texted|notified|\bsent (?:it|them|this|that) to\b",
            "schedule": r"\b(?:reminder|alarm|appointment|event|meeting|job|timer|task)\b",
            "remember": r"\b(?:memory|USER\.md|MEMORY\.md|your profile)\b",
        },
        r"\b(?:not|never|nothing|how|can|cannot|could|would|will|shall|should|may|might|must|if|unless|once|when|whenever"
        r"|until|before|after|to|say|says|said|that|as|because|like|imagine|suppose)\b|n['’]t\b",
        r"\b(?:yesterday|earlier|previously|ago|already|last|before|formerly|once|back then|link|if)\b",
        r"\bI(?:['’]ll| will| shall)(?: (?:always|also|certainly|definitely|gladly|now))? remember\b",
    ),
    "de": _Language(
        ("ich hab", "habe ich", "hab ich", "mir", "erinnern"),
        r"\b(?:ich habe?|habe? ich)\b[^,;:]{{0,120}}?\b(?:{})\b",
        {
            "write": "gespeichert|geschrieben|erstellt|angelegt|aktualisiert|geändert|bearbeitet|abgelegt|umbenannt",
            "delete": "gelöscht|entfernt",
            "run": "ausgeführt|gestartet|laufen lassen",
            "send": "gesendet|geschickt|verschickt|gesandt|weitergeleitet",
            "schedule": "eingetragen|geplant|eingerichtet|gestellt|angelegt",
            "remember": "gemerkt|vermerkt|gespeichert",
        },
        {
            "write": r"\b(?:Datei|Ordner|Dokument|Verzeichnis)\w*",
            "delete": r"\b(?:Datei|Ordner|Dokument|Verzeichnis|Erinnerung|Termin)\w*",
            "run": r"\b(?:Tests?|Skript|Befehl|Programm|Kommando)\b",
            "send": r"\b(?:Nachricht|E-?Mail|Mail|Bericht|Datei|Dokument|Einladung)\b",
            "schedule": r"\b(?:Erinnerung|Termin|Wecker|Aufgabe|Besprechung)\b",
            "remember": r"\b(?:Gedächtnis|Profil)\b|\bmir\b[^.]*\bgemerkt\b",
        },
        r"\b(?:nicht|nichts|nie|kein\w*|wenn|falls|sobald|als|dass|ob|würde|könnte|kann|bevor|nachdem)\b",
        r"\b(?:gestern|vorgestern|früher|vorhin|neulich|letzte\w*|damals|bereits|schon|nichts?|kein\w*)\b|\bvor \w+",
        r"\b(?:ich (?:merke|werde) mir\b|(?:merke|werde) ich mir\b|ich werde mich (?:daran|an)\b[^.]*\berinnern\b)",
    ),
    "fr": _Language(
        ("j'ai", "j’ai", "je m", "je ret", "je vais"),
        r"\bj['’]ai (?:\w+ )?(?:{})(?![\w])",
        {
            "write": "enregistré|écrit|créé|sauvegardé|modifié|mis à jour|renommé",
            "delete": "supprimé|effacé",
            "run": "exécuté|lancé",
            "send": "envoyé|transmis|transféré",
            "schedule": "programmé|planifié|ajouté|créé",
            "remember": "mémorisé|noté|enregistré",
        },
        {
            "write": r"\b(?:fichier|dossier|document)s?\b",
            "delete": r"\b(?:fichier|dossier|document|rappel|rendez-vous)s?\b",
            "run": r"\b(?:tests?|script|commande|programme)s?\b",
            "send": r"\b(?:message|courriel|e-?mail|mail|rapport|fichier|document|invitation)s?\b",
            "schedule": r"\b(?:rappel|rendez-vous|réunion|tâche|alarme)s?\b",
            "remember": r"\b(?:mémoire|profil)\b|mémorisé",
        },
        r"\b(?:si|quand|lorsque|que|avant|après|pas|jamais|rien)\b|qu['’]",
        r"\b(?:hier|avant|déjà|dernière?|auparavant|ago)\b|\bil y a\b|\bn['’]ai\b",
        r"\bje (?:m['’]en souviendrai|me souviendrai|retiendrai|vais (?:m['’]en souvenir|retenir|mémoriser))\b",
    ),
    "es": _Language(
        ("he ", "é"),
        r"(?<!\w)(?:he (?:\w+ )?)?(?:{})(?!\w)",
        {
            "write": "(?<=he )guardado|(?<=he )creado|(?<=he )escrito|(?<=he )puesto|guardé|creé|escribí|actualicé",
            "delete": "(?<=he )borrado|(?<=he )eliminado|borré|eliminé",
            "run": "(?<=he )ejecutado|(?<=he )lanzado|ejecuté",
            "send": "(?<=he )enviado|(?<=he )mandado|(?<=he )reenviado|envié",
            "schedule": "(?<=he )programado|(?<=he )agendado|(?<=he )añadido|(?<=he )creado|programé",
            "remember": "(?<=he )memorizado|(?<=he )anotado|(?<=he )guardado",
        },
        {
            "write": r"\b(?:archivo|fichero|carpeta|documento)s?\b",
            "delete": r"\b(?:archivo|fichero|carpeta|documento|recordatorio)s?\b",
            "run": r"\b(?:pruebas?|tests?|script|comando|programa)\b",
            "send": r"\b(?:mensaje|correo|informe|archivo|documento|invitación)s?\b",
            "schedule": r"\b(?:recordatorio|cita|reunión|tarea|alarma)s?\b",
            "remember": r"\b(?:memoria|perfil)\b|memorizado",
        },
        r"\b(?:no|nunca|nada|si|cuando|que|antes|después)\b",
        r"\b(?:ayer|anoche|antes|ya|último|última|pasad[oa])\b|\bhace \w+",
        r"\b(?:lo |la )?(?:recordaré|memorizaré|tendré presente)\b",
    ),
    "it": _Language(
        ("ho ", "erò"),
        r"(?<!\w)ho (?:\w+ )?(?:{})(?!\w)",
        {
            "write": "salvato|creato|scritto|aggiornato|modificato",
            "delete": "cancellato|eliminato|rimosso",
            "run": "eseguito|lanciato",
            "send": "inviato|mandato|spedito|inoltrato",
            "schedule": "programmato|pianificato|impostato|creato|aggiunto",
            "remember": "memorizzato|annotato|salvato",
        },
        {
            "write": r"\b(?:file|cartella|documento)\b",
            "delete": r"\b(?:file|cartella|documento|promemoria)\b",
            "run": r"\b(?:test|script|comando|programma)\b",
            "send": r"\b(?:messaggio|e-?mail|mail|rapporto|file|documento|invito)\b",
            "schedule": r"\b(?:promemoria|appuntamento|riunione|sveglia|attività)\b",
            "remember": r"\b(?:memoria|profilo)\b|memorizzato",
        },
        r"\b(?:non|mai|niente|nulla|se|quando|che|prima|dopo)\b",
        r"\b(?:ieri|prima|già|scors[oa]|ultim[oa])\b|\w+ fa\b",
        r"\b(?:me (?:lo|la|ne) )?(?:ricorderò|memorizzerò)\b",
    ),
    "pt": _Language(
        ("ei ", "i o", "i a", "i um", "vou ", "ei."),
        r"(?<!\w)(?:{})(?!\w)",
        {
            "write": "salvei|guardei|gravei|criei|escrevi|atualizei",
            "delete": "apaguei|excluí|eliminei|removi",
            "run": "executei|rodei",
            "send": "enviei|mandei|encaminhei",
            "schedule": "agendei|programei|marquei|criei",
            "remember": "memorizei|anotei|guardei",
        },
        {
            "write": r"\b(?:arquivo|ficheiro|pasta|documento)s?\b",
            "delete": r"\b(?:arquivo|ficheiro|pasta|documento|lembrete)s?\b",
            "run": r"\b(?:testes?|script|comando|programa)\b",
            "send": r"\b(?:mensagem|e-?mail|relatório|arquivo|ficheiro|documento|convite)s?\b",
            "schedule": r"\b(?:lembrete|compromisso|reunião|tarefa|alarme)s?\b",
            "remember": r"\b(?:memória|perfil)\b|memorizei",
        },
        r"\b(?:não|nunca|nada|se|quando|que|antes|depois)\b",
        r"\b(?:ontem|antes|já|passad[oa]|últim[oa])\b|\bhá \w+",
        r"\b(?:vou (?:me )?lembrar|lembrarei|vou memorizar)\b",
    ),
    "nl": _Language(
        ("ik heb", "heb ik", "onthoud"),
        r"\b(?:ik heb|heb ik)\b[^,;:]{{0,120}}?\b(?:{})\b",
        {
            "write": "opgeslagen|geschreven|gemaakt|aangemaakt|bijgewerkt|gewijzigd|bewaard",
            "delete": "verwijderd|gewist",
            "run": "uitgevoerd|gedraaid|gestart",
            "send": "verstuurd|gestuurd|verzonden|doorgestuurd",
            "schedule": "ingepland|gepland|ingesteld|toegevoegd",
            "remember": "onthouden|genoteerd|opgeslagen",
        },
        {
            "write": r"\b(?:bestand|map|document)(?:en)?\b",
            "delete": r"\b(?:bestand|map|document|herinnering|afspraak)(?:en)?\b",
            "run": r"\b(?:tests?|script|opdracht|commando|programma)\b",
            "send": r"\b(?:bericht|e-?mail|mail|rapport|bestand|document|uitnodiging)\b",
            "schedule": r"\b(?:herinnering|afspraak|vergadering|taak|wekker)\b",
            "remember": r"\b(?:geheugen|profiel)\b",
        },
        r"\b(?:niet|niets|nooit|geen|als|wanneer|dat|zodra|voordat|nadat)\b",
        r"\b(?:gisteren|eerder|vorige?|laatste|al|niet|niets|geen|geleden)\b",
        r"\b(?:ik (?:zal|ga)\b[^.]*\bonthouden\b|ik onthoud\b|(?:zal|ga) ik\b[^.]*\bonthouden\b)",
    ),
    "ru": _Language(
        ("я ", "л ", "ла ", "запомню"),
        r"\bя (?:\w+ )?(?:{})а?\b",
        {
            "write": "сохранил|записал|создал|обновил|изменил",
            "delete": "удалил|стёр|стер",
            "run": "запустил|выполнил",
            "send": "отправил|послал|переслал",
            "schedule": "запланировал|поставил|создал|добавил",
            "remember": "запомнил|записал|сохранил",
        },
        {
            "write": r"\b(?:файл|папк|документ)\w*",
            "delete": r"\b(?:файл|папк|документ|напоминани)\w*",
            "run": r"\b(?:тест|скрипт|команд|программ)\w*",
            "send": r"\b(?:сообщени|письм|отчёт|отчет|файл|документ|приглашени)\w*",
            "schedule": r"\b(?:напоминани|встреч|будильник|задач)\w*",
            "remember": r"\b(?:памят|профил)\w*|запомнил",
        },
        r"\b(?:не|никогда|ничего|если|когда|что|бы)\b",
        r"\b(?:вчера|раньше|ранее|уже|прошл\w+|назад)\b",
        r"\bя (?:это )?(?:запомню|буду помнить)\b|\bзапомню\b",
    ),
    "zh": _Language(
        ("我",),
        r"我(?:已经?|刚刚?|已?将|把|帮[你您])[^，。；、？！]{{0,40}}?(?:{})",
        {
            "write": "保存|写入|写到|创建|新建|更新|修改",
            "delete": "删除|移除",
            "run": "运行|执行",
            "send": "发送|发给|发到|转发",
            "schedule": "安排|设置|设定|添加|创建",
            "remember": "记住|记录|存入",
        },
        {
            "write": "文件|文档|目录",
            "delete": "文件|文档|目录|提醒",
            "run": "测试|脚本|命令|程序",
            "send": "消息|邮件|报告|文件|文档",
            "schedule": "提醒|会议|日程|闹钟|任务",
            "remember": "记忆|记住",
        },
        "没|未|不|如果|可以|能|会|想",
        "昨天|之前|上次|以前|刚才|曾",
        "我(?:会|将会?|一定)(?:一直|永远)?记住|我记住了",
    ),
    "ja": _Language(
        ("しました", "いたしました", "おきます", "ました"),
        r"(?:{})(?:しました|いたしました)",
        {
            "write": "保存|作成|更新|編集",
            "delete": "削除",
            "run": "実行",
            "send": "送信|送付|転送",
            "schedule": "設定|登録|予約|追加",
            "remember": "記憶|記録",
        },
        {
            "write": "ファイル|フォルダ|文書",
            "delete": "ファイル|フォルダ|文書|リマインダー",
            "run": "テスト|スクリプト|コマンド|プログラム",
            "send": "メッセージ|メール|レポート|報告|ファイル|文書",
            "schedule": "リマインダー|予定|会議|アラーム|タスク",
            "remember": "メモリ|記憶",
        },
        "(?<!私)[はが]|ませ|もし|場合|ユーザー",
        "昨日|以前|先日|前回|先ほど",
        "覚えておきます|記憶しておきます|覚えました",
    ),
}


class _Rules(Struct, frozen=True):
    says: re.Pattern[str]
    things: Mapping[ClaimKind, re.Pattern[str]]
    unless: re.Pattern[str]
    past: re.Pattern[str]
    promises: re.Pattern[str]


@lru_cache
def _rules(name: str) -> _Rules:
    """The patterns of a language, made when a text has one of its cues."""
    one, flags = _LANGUAGES[name], re.IGNORECASE
    verbs = "|".join(dict.fromkeys("|".join(one.verbs.values()).split("|")))
    things = {kind: re.compile(words, flags) for kind, words in one.things.items()}
    says = re.compile(one.says.format(verbs), flags)
    return _Rules(says, things, *(re.compile(words, flags) for words in (one.unless, one.past, one.promises)))


def with_receipt(result: ToolResult, verdict: Verdict, tool: str) -> ToolResult:
    """The result of a call with its receipt as people see it: a line for each thing that was done, none of them long or
    with a secret in it. A service that may have changed something, and does not say what, was called."""
    changed = verdict.decision == "allow" and any(effect.kind == "change" for effect in verdict.effects)
    said = result.receipt or (_("called {tool}", tool=tool) if changed and result.success else "")
    lines = (shorten(squeeze(strip_unsafe(scrub(line))), _WIDTH) for line in said.splitlines())
    return replace(result, receipt="\n".join(filter(None, lines))) if said else result


def unbacked(answer: str, done: Collection[str]) -> tuple[ClaimKind, ...]:
    """What `answer` claims though none of the effects in `done` can have done it, in a fixed order."""
    claimed = set(_claims(answer))
    if claimed & {"schedule", "remember"}:
        claimed.discard("write")  # "I created a reminder" is about no file
    return tuple(kind for kind, backs in BACKED_BY.items() if kind in claimed and backs.isdisjoint(done))


def _claims(answer: str) -> Iterator[ClaimKind]:
    text = _FENCED.sub("\n", answer[:_JUDGED])
    text = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith(">"))
    text = _QUOTED.sub(lambda quoted: quoted[0][1:-1] if _NAME.fullmatch(quoted[0]) else " … ", text)
    lowered = text.casefold()
    names = [name for name, one in _LANGUAGES.items() if any(cue in lowered for cue in one.cues)]
    for sentence in _SENTENCE.findall(text) if names else ():
        if not sentence.rstrip(" *_)").endswith(("?", "？")):
            for name in names:
                yield from _claims_in(sentence, name)


def _claims_in(sentence: str, name: str) -> Iterator[ClaimKind]:
    rules = _rules(name)
    promise = rules.promises.search(sentence)
    if promise is not None and not rules.unless.search(sentence, 0, promise.start()):
        yield "remember"
    match = rules.says.search(sentence)
    if match is None or rules.past.search(sentence) or rules.unless.search(sentence, 0, match.end()):
        return
    begin = max((sentence.rfind(mark, 0, match.start()) for mark in ",;:、，；："), default=0) + 1
    end = _CLAUSE.search(sentence, match.end())
    clause = sentence[begin : end.start() if end else len(sentence)]
    named = re.search(_FILE, clause)
    for kind, verbs in _LANGUAGES[name].verbs.items():
        about = rules.things[kind].search(clause) or (named and kind in ("write", "delete", "send"))
        if about and re.search(rf"(?<![a-zà-ÿа-яё])(?:{verbs})", match[0], re.IGNORECASE):
            yield kind
