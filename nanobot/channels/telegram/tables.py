"""Tables as Telegram can show them: aligned where a phone has the room, else one record under the other."""

from collections.abc import Sequence

from msgspec.structs import replace

from nanobot.channels.telegram.entities import Entity, Rendered, width

TABLE_COLUMNS = 42  # display columns that a phone shows in one line

Row = Sequence[Rendered]


def table_of(rows: Sequence[Row]) -> Rendered:
    """A table whose first row is its head."""
    columns = [max(width(row[i].text) if i < len(row) else 0 for row in rows) for i in range(len(rows[0]))]
    if sum(columns) + 3 * (len(columns) - 1) <= TABLE_COLUMNS:
        return _aligned(rows, columns)
    return _records(rows)


def _aligned(rows: Sequence[Row], columns: Sequence[int]) -> Rendered:
    lines = [
        " | ".join(cell.text + " " * (size - width(cell.text)) for cell, size in zip(row, columns, strict=False))
        for row in rows
    ]
    lines.insert(1, "-+-".join("-" * size for size in columns))
    text = "\n".join(line.rstrip() for line in lines)
    return Rendered(text, (Entity("pre", 0, len(text)),))


def _records(rows: Sequence[Row]) -> Rendered:
    head, *body = rows
    records = [_record(head if body else (), row) for row in body or [head]]
    text, entities = "", []
    for record in records:
        text += "\n\n" if text else ""
        entities += [replace(entity, offset=entity.offset + len(text)) for entity in record.entities]
        text += record.text
    return Rendered(text, tuple(entities))


def _record(head: Row, row: Row) -> Rendered:
    """`header: value` lines, the first value in bold."""
    text, entities = "", []
    for index, cell in enumerate(row):
        text += "\n" if index else ""
        if index < len(head) and head[index].text:
            text += head[index].text + ": "
        entities += [replace(entity, offset=entity.offset + len(text)) for entity in cell.entities]
        if index == 0 and cell.text:
            entities.append(Entity("bold", len(text), len(cell.text)))
        text += cell.text
    return Rendered(text, tuple(entities))
