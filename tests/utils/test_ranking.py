"""Words folded for comparison, BM25, and pages taken apart."""

from hypothesis import given
from hypothesis import strategies as st

from nanobot.utils.passages import sentences, split_passages
from nanobot.utils.ranking import best_passages, terms
from tests.tables import table


@table(
    "one other",
    ("investigations", "investigated"),
    ("cities", "city"),
    ("announcement", "announced"),
    ("stopped", "stop"),
    ("Mayor's", "mayors"),
    ("café", "Cafe"),
    ("１２３", "123"),
    ("1,234", "1234"),
    ("старости", "старость"),
    ("l’avalanche", "avalanches"),
    ("dell'acqua", "acqua"),
    ("o'clock", "o"),
)
def test_forms_of_a_word_meet(one: str, other: str) -> None:
    assert terms(one) == terms(other)


def test_scripts_without_blanks_are_cut_into_pairs() -> None:
    assert terms("機能制限") == ["機能", "能制", "制限"]


@table(
    "query wanted",
    ("who wrote the report", "The report was written, or rather the report wrote itself, says Ann."),
    ("iPhoneの機能制限", "脱獄とはiPhoneの機能制限を解除することです。"),
    ("сколько лет модели", "Модели исполнилось 53 года, и лет ей мало не дашь."),
)
def test_the_passage_with_the_rare_words_comes_first(query: str, wanted: str) -> None:
    others = ["The weather is fine.", "天気がいいです。", "Погода сегодня хорошая.", "The dog and the cat."]
    found = best_passages(query, [*others, wanted], 2)
    assert found[0].index == len(others)


@given(st.text(), st.lists(st.text(), max_size=8), st.integers(0, 5))
def test_any_text_can_be_ranked(query: str, passages: list[str], k: int) -> None:
    found = best_passages(query, passages, k)
    assert len(found) <= k
    assert all(item.score > 0 for item in found)


def test_a_page_is_split_under_its_headings() -> None:
    page = (
        "# A\n\nOne *line*\nmore [link](http://x/y_(z)).\n\n## B\n\n- first\n- second\n\n"
        "```\n# no heading\n```\n\n| a | b |\n|---|---|\n"
    )
    assert [(item.heading, item.text) for item in split_passages(page)] == [
        ("A", "One line more link."),
        ("A › B", "first"),
        ("A › B", "second"),
        ("A › B", "# no heading"),
        ("A › B", "a · b"),
    ]


def test_sentences_end_at_their_marks_and_not_at_abbreviations() -> None:
    text = 'Gov. Ann B. Lee paid $9.99 to the U.S. Navy. "Done!" He left。これは何？はい。'
    assert sentences(text) == (
        "Gov. Ann B. Lee paid $9.99 to the U.S. Navy.",
        '"Done!"',
        "He left。",
        "これは何？",
        "はい。",
    )


@given(st.text())
def test_no_word_is_lost_between_sentences(text: str) -> None:
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())
