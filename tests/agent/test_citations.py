"""Marks in an answer: where they stand, and which of them stay."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanobot.agent.citations.check import check, cited
from nanobot.bus.events import Notice, TurnFinished
from nanobot.messages import AssistantMessage
from nanobot.providers.scripted import Call, ScriptedProvider
from nanobot.results import BOOK_CHARS, SOURCE_CHARS, Source, SourceBook, ToolResult
from nanobot.utils.marks import find_marks
from tests.agent.harness import FakeTool, QueryArgs, agent

TOWER = (
    "The lookout tower of Merrow was built by Ada Lindgren from 1911 to 1914. It is 1,204 feet tall and made of oak. "
    '"It moves a little in the wind," says the warden. "Nobody has ever complained." '
    "On 3 May 2024 it closed for repairs that cost 2.5 million crowns."
)
LAKE = "Lake Ostra is 41 metres deep and freezes from December to March. Its fish are protected."
CHINESE = "梅罗塔高367米，建于1914年，由李明设计。每年有12.5万人登塔。"


@pytest.fixture
def book() -> SourceBook:
    made = SourceBook()
    made.add("https://merrow.test/tower", "Lookout tower", read=True, text=TOWER)
    made.add("https://ostra.test/", "Lake Ostra", read=True, text=LAKE)
    made.add("https://merrow.test/zh", "梅罗塔", read=True, text=CHINESE)
    made.add("https://found.test/", "Merrow travel guide", text="Merrow travel guide\nTickets for the tower: 9 crowns")
    return made


RIGHT = [
    "The tower is 1204 ft tall [1].",
    "It was built between 1911 and 1914 by Ada Lindgren.[1] Then came others.",
    "“It moves a little in the wind. Nobody has ever complained.” [1]",
    "It closed on 2024-05-03 [1], and the lake is 41 m deep [2].",
    "According to [1], the repairs cost 2.5m crowns.",
    "- **Material**: oak [1]",
    "| height | 1,204 feet [1] |",
    "The tower of oak and the lake with its fish [1][2].",
    "Tickets for the tower cost 9 crowns [4].",
    "梅罗塔高367米[3]，每年约有125,000人登塔[3]。🎉",
    "Der Turm ist 1.204 Fuß hoch [1].",
    "Both are old【1】.",
]


@pytest.mark.parametrize("text", RIGHT)
def test_G14_a_mark_stays_where_its_source_says_so(text: str, book: SourceBook) -> None:
    assert check(text, book).text == text


WRONG = [
    ("The tower is tall [7]. It stands.", "The tower is tall. It stands.", "an invented number"),
    ("The tower is 1,402 ft tall [1].", "The tower is 1,402 ft tall.", "another figure"),
    ("The tower is 1204 metres tall [1].", "The tower is 1204 metres tall.", "another unit"),
    ("The tower is 1204 ft tall [2].", "The tower is 1204 ft tall.", "another page"),
    ("It closed on 13 May 2024 [1].", "It closed on 13 May 2024.", "another date"),
    ("“Everybody complains all the time.” [1]", "“Everybody complains all the time.”", "another quotation"),
    ("The tower was built by Paul Ekman [1].", "The tower was built by Paul Ekman.", "another name"),
    ("The lake is 41 m deep [1, 2].", "The lake is 41 m deep [2].", "one of two numbers"),
    ("The lake is 41 m deep [2][9] today.", "The lake is 41 m deep [2] today.", "one of two marks"),
    ("Tickets for the tower cost 19 crowns [4].", "Tickets for the tower cost 19 crowns.", "not in the snippet"),
    ("梅罗塔高376米[3]。🎉每年有12.5万人登塔[3]。", "梅罗塔高376米。🎉每年有12.5万人登塔[3]。", "a figure in Chinese"),
    ("👩‍🚒🇫🇮 Its fish are protected [2]; its fish are sold for 80 crowns [2].", None, "behind emoji"),
]


@pytest.mark.parametrize(("text", "wanted", "why"), WRONG, ids=[row[2] for row in WRONG])
def test_G14_a_mark_goes_that_its_source_does_not_support(
    text: str, wanted: str | None, why: str, book: SourceBook
) -> None:
    checked = check(text, book)
    assert checked.text == (wanted or text.removesuffix(" [2].") + "."), why
    assert len(checked.removed) == 1
    assert checked.notice.startswith("Removed 1 citation that the pages do not support: [")


UNTOUCHED = [
    "```python\nx = items[7]\n```",
    "~~~\n[7]\n~~~",
    "```\nan open block [7]",
    "Use `rows[7]` or ``a ` [7] b`` here.",
    "See https://a.test/page[7] there.",
    "A link [7](https://a.test/) and [the [7] text](https://a.test/x).",
    "Write x[7] or sys.argv[7].",
    "From [0] to [2024] and [x].",
    "[7]: https://a.test/",
]


@pytest.mark.parametrize("text", UNTOUCHED)
def test_G13_brackets_in_code_addresses_and_links_are_no_marks(text: str, book: SourceBook) -> None:
    assert check(text, book).text == text
    assert find_marks(text) == ()


def test_marks_that_the_person_wrote_stay_and_a_turn_without_sources_keeps_its_lists() -> None:
    empty = SourceBook()
    assert check("Entry [2] is by Rowe.", empty, "sort these: [1] Ash, [2] Rowe").text == "Entry [2] is by Rowe."
    assert check("Sorted: [1, 2, 3].\n[1] Ash\n[2] Rowe", empty).removed == ()
    assert check("Paris is the capital [1].", empty).text == "Paris is the capital."


def test_a_list_of_its_own_is_kept_only_while_it_is_right(book: SourceBook) -> None:
    right = "The lake is 41 m deep [2].\n\n## Sources\n\n- [2] Lake Ostra https://ostra.test/"
    assert check(right, book).text == right
    for wrong in ("- [8] Lake https://ostra.test/", "- [2] Lake https://elsewhere.test/"):
        text = f"The lake is 41 m deep [2].\n\n**Sources:**\n{wrong}\n"
        assert check(text, book).text == "The lake is 41 m deep [2]."


def test_G11_sources_come_by_their_first_use_and_then_those_read_besides(book: SourceBook) -> None:
    order = [source.number for source in cited("Deep [2], tall [1] and [2].", book.all)]
    assert order == [2, 1, 3]


def test_what_a_book_keeps_is_bounded() -> None:
    book = SourceBook()
    for number in range(12):
        book.add(f"https://a.test/{number}", text=f"{number}" * (SOURCE_CHARS + 5))
    book.note(1, "more")
    assert len(book.text(1)) == SOURCE_CHARS
    assert sum(len(book.text(number)) for number in range(1, 13)) == BOOK_CHARS
    assert book.text(99) == ""


_PIECES = st.sampled_from(
    [
        "[1]",
        "[2, 3]",
        "【1】",
        "`",
        "```\n",
        "“",
        "”",
        '"',
        "王伟说",
        "1,204",
        "2024-05-03",
        "5 May",
        "万",
        "🐼",
        "\n",
        " ",
        ".",
        "。",
    ]
)


@given(st.lists(_PIECES | st.text(max_size=4), max_size=25), st.lists(_PIECES | st.text(max_size=4), max_size=25))
def test_G13_a_check_takes_out_marks_and_nothing_else_whatever_is_written(answer: list[str], page: list[str]) -> None:
    book = SourceBook()
    book.add("https://a.test/", read=True, text="".join(page))
    text = "".join(answer)
    checked = check(text, book)
    left = {sign for sign in text if not sign.isspace()} - set("[]【】,0123456789†")
    assert left <= set(checked.text) | set("[]"), "no sign of the answer itself is lost"
    assert check(checked.text, book).text.count("[") <= checked.text.count("[")


def test_G14_a_giant_hostile_page_is_checked_within_seconds() -> None:
    for piece in ("1" * 400, "](((((", "王", "“a", "may ", "In 2020 the 12 million Foo Bar rose. "):
        book = SourceBook()
        book.add("https://a.test/", read=True, text=piece * (300_000 // len(piece)))
        started = time.process_time()
        check("In 2024 “it rose to a new height today” by Foo Bar to 12 million [1]. 王伟说3次 [1].", book)
        assert time.process_time() - started < 8, piece


async def test_G14_the_end_of_a_turn_brings_the_checked_answer_and_one_line_about_it() -> None:
    page = Source(1, "https://merrow.test/", "Lookout tower", read=True)
    tool = FakeTool("web_fetch", lambda _args: ToolResult(TOWER, sources=(page,)))

    class Reads(FakeTool):
        async def run(self, args: QueryArgs, context: object) -> ToolResult:
            context.sources.add(page.url, page.title, read=True)  # type: ignore[attr-defined]
            return await tool.run(args, context)  # type: ignore[arg-type]

    answer = "It is 1,204 feet tall [1] and 900 years old [1], says a guide [5]."
    provider = ScriptedProvider([Call("web_fetch", {"url": "https://merrow.test/"}), answer])
    async with agent(provider, Reads("web_fetch")) as box:
        finished = await box.ask("how tall?")
        notices = [item.text for item in box.of(Notice) if isinstance(item, Notice)]
        kinds = [type(item.event) for item in box.events]
        kept = [item for item in await box.history() if isinstance(item, AssistantMessage)]
    assert finished.text == "It is 1,204 feet tall [1] and 900 years old, says a guide."
    assert notices == ["Removed 2 citations that the pages do not support: [1], [5]."]
    assert kinds[-2:] == [Notice, TurnFinished]
    assert finished.sources == (page,)
    assert kept[-1].text == answer, "the record keeps the model's own words"
