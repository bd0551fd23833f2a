"""Which words of pages `lookup` quotes, and how many."""

from nanobot.providers.lookup_answer import Evidence
from nanobot.providers.lookup_reading import PageText
from nanobot.providers.lookup_words import understand

TABLE = """# Peaks of the Norrland range

| Peak | Height | First climbed |
|---|---|---|
| Skarven | 1,912 m | 1874 |
| Tofjell | 1,455 m | 1901 |
| Gråhorn | 2,033 m | 1866 |

The range is popular with skiers in April and with walkers in August, and huts stand a day's walk apart."""

FILLER = "\n\n".join(
    f"Peaks such as number {number} of another land are high, and people in many places like to look at them for hours."
    for number in range(8)
)


def quoted(text: str, question: str) -> list[str]:
    return [
        quote.text
        for quote in Evidence([PageText(1, "Norrland", "https://n.test/", text)]).quotes(understand(question))
    ]


def test_a_table_row_is_quoted_with_the_head_of_its_table_and_without_its_neighbours() -> None:
    assert quoted(TABLE, "When was Tofjell first climbed?")[0] == (
        "Peak · Height · First climbed — Tofjell · 1,455 m · 1901"
    )


def test_passages_far_below_the_best_are_left_out() -> None:
    best = "Skarven in the Norrland range was first climbed by Marit Aune on 3 June 1874, in snow up to her knees."
    quotes = quoted(f"{best}\n\n{FILLER}", "Who first climbed Skarven in the Norrland range?")
    assert quotes == [best]
