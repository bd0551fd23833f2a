"""Which words of pages `lookup` quotes, and in what shape."""

from nanobot.providers.lookup.question import PageText, understand
from nanobot.providers.lookup.quotes import Evidence

TABLE = """# Peaks of the Norrland range

| Peak | Height | First climbed |
|---|---|---|
| Skarven | 1,912 m | 1874 |
| Tofjell | 1,455 m | 1901 |
| Gråhorn | 2,033 m | 1866 |

The range is popular with skiers in April and with walkers in August, and huts stand a day's walk apart."""

STEPS = """# Setting up Quillo

Quillo is a small mail server that runs on one machine.

## Install

You need root. Do this:

1. Add the line `deb https://q.test stable` to the sources.
2. Install it:

   ```
   apt install quillo
   ```
3. Start it with `quillo up`.

## Needs

It needs:

- 200 MB of disk
- an open port 25
"""

FILLER = "\n\n".join(
    f"Peaks such as number {number} of another land are high, and people in many places like to look at them for hours."
    for number in range(8)
)


def quoted(text: str, question: str) -> list[str]:
    ((topic, kind),) = understand(question).topics
    return [quote.text for quote in Evidence([PageText(1, "Norrland", "https://n.test/", text)]).quotes(topic, kind)]


def test_a_table_row_is_quoted_under_the_head_of_its_table_and_without_its_neighbours() -> None:
    assert quoted(TABLE, "When was Tofjell first climbed?")[0].splitlines() == [
        "| Peak | Height | First climbed |",
        "|---|---|---|",
        "| Tofjell | 1,455 m | 1901 |",
    ]


def test_passages_far_below_the_best_are_left_out() -> None:
    best = "Skarven in the Norrland range was first climbed by Marit Aune on 3 June 1874, in snow up to her knees."
    quotes = quoted(f"{best}\n\n{FILLER}", "Who first climbed Skarven in the Norrland range?")
    assert quotes == [best]


def test_how_to_do_something_is_answered_with_every_step_and_its_code() -> None:
    first = quoted(STEPS, "How do I install Quillo?")[0]
    assert "1. Add the line `deb https://q.test stable`" in first
    assert "```\napt install quillo\n```" in first
    assert "3. Start it with `quillo up`." in first


def test_a_line_that_ends_in_a_colon_takes_its_list_along() -> None:
    assert any(
        "It needs:\n- 200 MB of disk\n- an open port 25" in quote for quote in quoted(STEPS, "What does Quillo need?")
    )


def test_two_questions_in_one_sentence_are_two_topics() -> None:
    topics = understand("When is high tide on 6 June, and when does the last ferry leave?").topics
    assert [kind for _, kind in topics] == ["time", "time"]
    assert "ferry" not in topics[0][0]
    assert "tide" not in topics[1][0]
