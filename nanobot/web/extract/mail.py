"""Mail files: one message (.eml), or several in a row (mbox). Runs in the worker process.

Of a message its subject, its people, its date, its text and the names of what is attached are kept; the attachments
themselves are not read. Sources: RFC 5322, RFC 2045, RFC 4155.
"""

import re
import time
from email.errors import MessageError
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default
from itertools import islice

from nanobot.utils.text import squeeze
from nanobot.web.extract.html import extract
from nanobot.web.extract.page import Extracted

#: Seconds of CPU after which what was read so far is enough; below the worker's own limit.
CPU_SECONDS = 4.0
#: Characters of the text of one message, and parts of one that are looked at.
_TEXT_CHARS, _PARTS = 200_000, 200
_BEGIN = re.compile(rb"(?m)^From [^\n]*\n")
_HEADERS = ("From", "To", "Cc", "Date")


def extract_mail(body: bytes) -> Extracted:
    """Each message under a heading with its subject; the title is that of the first."""
    whole = _BEGIN.split(body)[1:] if body.startswith(b"From ") else [body]
    start = time.process_time()
    told: list[str] = []
    notes: list[str] = []
    title = ""
    for number, message in enumerate(whole):
        if time.process_time() - start > CPU_SECONDS:
            notes.append(f"Only the first {number} of {len(whole)} messages were read.")
            break
        try:
            mail = BytesParser(EmailMessage, policy=default).parsebytes(message)
            subject, text = _told(mail)
        except (MessageError, ValueError, LookupError, AttributeError, TypeError, IndexError) as error:
            notes.append(f"A message is damaged ({squeeze(str(error))[:100] or type(error).__name__}).")
            continue
        title = title or subject
        told.append(f"## {subject or '(no subject)'}\n\n{text}")
    return Extracted(title[:300], "\n\n".join(told), "mail", notes=tuple(dict.fromkeys(notes)))


def _told(mail: EmailMessage) -> tuple[str, str]:
    """The subject of a message, and the rest of what is kept."""
    heads = [f"{name}: {squeeze(str(mail[name]))[:500]}" for name in _HEADERS if mail[name]]
    texts, pages, attached = list[str](), list[str](), list[str]()
    for part in islice((one for one in mail.walk() if not one.is_multipart()), _PARTS):
        name = part.get_filename()
        if name or part.get_content_disposition() == "attachment":
            attached.append(squeeze(name or part.get_content_type()))
        elif part.get_content_type() == "text/plain":
            texts.append(_content(part))
        elif part.get_content_type() == "text/html":
            pages.append(extract(_content(part), "").text)
    said = "\n\n".join(text.strip() for text in texts or pages if text.strip())[:_TEXT_CHARS]
    files = f"Attachments: {', '.join(attached)}" if attached else ""
    return squeeze(str(mail["Subject"] or ""))[:300], "\n\n".join(filter(None, ("\n".join(heads), said, files)))


def _content(part: EmailMessage) -> str:
    """The text of a part, whatever its header claims of its encoding."""
    try:
        return str(part.get_content())
    except (LookupError, ValueError):
        data = part.get_payload(decode=True)
        return data.decode("utf-8", "replace") if isinstance(data, bytes) else ""
