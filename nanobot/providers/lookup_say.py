"""The fixed sentences of `lookup`, and a second try at a search query."""

from collections.abc import Sequence

from nanobot.providers.lookup_words import Question, Wish

CLOSING = (
    "I am lookup, not a language model: I search, read and quote. To get written answers, add a model: put a "
    "key such as "
    "ANTHROPIC_API_KEY or OPENAI_API_KEY into the environment, or start a local model server such as Ollama."
)
NO_NETWORK = (
    "Neither search nor pages could be reached, so there is nothing to quote; check the network and ask again. "
    "`nanobot demo` shows what it does without one"
)
FROM_DOCS = "From nanobot's documentation:"
PLAIN: dict[Wish, str] = {
    "greeting": "Hello. Ask me something that can be looked up, or paste a link, and I will quote what answers it.",
    "about": (
        "I am nanobot with lookup, its built-in way to answer without a language model. I search the web, read "
        "pages and "
        "quote the passages that answer, with their sources. Questions about nanobot I answer from its documentation."
    ),
    "impossible": (
        "I cannot do that without a language model: lookup only finds and quotes what is written on pages. Ask "
        "a question "
        "that can be looked up, or add a model."
    ),
    "empty": "There is no question in your message. Ask me something that can be looked up, or paste a link.",
}
_FRAMING = {
    "en": ("The pages that I read say:", "I could not read a page; the search results say:"),
    "de": ("Auf den gelesenen Seiten steht:", "Ich konnte keine Seite lesen; in den Suchergebnissen steht:"),
    "fr": ("Les pages lues disent :", "Aucune page n'a pu être lue ; les résultats de recherche disent :"),
    "es": ("Las páginas leídas dicen:", "No pude leer ninguna página; los resultados de búsqueda dicen:"),
    "pt": ("As páginas lidas dizem:", "Não consegui ler nenhuma página; os resultados da busca dizem:"),
    "it": ("Le pagine lette dicono:", "Non ho potuto leggere nessuna pagina; i risultati della ricerca dicono:"),
    "ru": ("На прочитанных страницах сказано:", "Страницы прочитать не удалось; в результатах поиска сказано:"),
    "id": ("Halaman yang dibaca menyebutkan:", "Tidak ada halaman yang terbaca; hasil pencarian menyebutkan:"),
    "ja": ("読んだページにはこう書かれています：", "ページを読めませんでした。検索結果にはこう書かれています："),
    "ko": ("읽은 페이지에는 이렇게 적혀 있습니다:", "페이지를 읽지 못했습니다. 검색 결과에는 이렇게 적혀 있습니다:"),
    "zh": ("读到的网页上写着：", "未能读取网页；搜索结果写着："),
}


def framing(language: str, *, read: bool) -> str:
    """The line above the quotes, in the language of the question where it is known."""
    lines = _FRAMING.get(language, _FRAMING["en"])
    return lines[0] if read else lines[1]


def nothing(question: Question, failures: Sequence[str], *, can_search: bool) -> str:
    """Why there is no answer, and what to do."""
    if not can_search:
        return "I have no web search here, so I cannot look this up. Switch the web tools on and ask again."
    if question.urls and failures:
        return (
            f"The page could not be read ({', '.join(dict.fromkeys(failures))}). Check the address, or ask without it."
        )
    why = f" Some calls failed: {', '.join(dict.fromkeys(failures))}." if failures else ""
    return f"I found no page that answers this.{why} Ask in other words, with the names that matter."


def rephrased(question: Question, queries: Sequence[str]) -> str:
    """The query of a second search: the words that carry the subject alone; empty where that is nothing new."""
    words = question.topic.strip(" ?!.")
    if words and words not in queries:
        return words
    names = " ".join(word for word in words.split() if word[:1].isupper() or word[:1].isdigit())
    return names if names and names not in queries else ""
