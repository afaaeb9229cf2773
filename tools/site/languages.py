"""The site in several languages: a switch, the same anchors in all, and a search for each.

Every language has the same pages at the same addresses, below a folder with its code.
Anchors are made of the English headings, so that a link holds in all of them;
`book/static/languages.js` keeps the place when the reader switches.

A process draws the site in one language. `tr` translates what stands around the pages: in
Python, in templates, in scripts. `python -m tools languages` finds the messages marked so.
"""

import re
import unicodedata
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from docutils import nodes
from myst_parser.mdit_to_docutils.base import default_slugify
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.locale import _
from sphinx.search import SearchLanguage

from tools.book.book import Book
from tools.languages.language import ENGLISH, SITE_CONTEXT, Language, read_languages

CHINESE = re.compile(r"([\u3400-\u9fff]+)")
CORES = re.compile(r"\b(\d+) cores\b")
_language = ENGLISH


def speak(language: Language) -> None:
    """Draw everything from now on in `language`."""
    global _language
    _language = language


def spoken() -> Language:
    return _language


def tr(message: str) -> str:
    return _language.say(SITE_CONTEXT, message)


def punctuated(text: str) -> str:
    """Put the language's own marks between the words that `text` is made of."""
    for english_mark, mark in _language.marks.items():
        text = text.replace(english_mark, mark)
    return text


def translate_facts(text: str) -> str:
    """Translate what a recording says of the machine that it was made on."""
    return CORES.sub(lambda cores: tr("{0} cores").format(cores[1]), punctuated(text))


def translate_times_source(source: str) -> str:
    """Translate where times come from: modelled for a card, or measured on hardware."""
    hardware = source.removeprefix("measured on ")
    if hardware == source:
        return tr(source)
    return tr("measured on {0}").format(translate_facts(hardware))


@cache  # a process draws one site, and its files do not change meanwhile
def read_book(root: Path) -> Book:
    """Read the book in the language of the site."""
    if _language.is_english:
        return Book(root)
    from tools.languages.translated_book import TranslatedBook

    return TranslatedBook(root, language=_language)


def setup(app: Sphinx) -> None:
    for language in (Chinese, Vietnamese):
        app.add_search_language(language)
    app.connect("config-inited", place_switch)
    # Before anything refers to the sections.
    app.connect("doctree-read", name_sections, priority=50)
    app.connect("html-page-context", offer_languages)
    app.add_js_file("languages.js", loading_method="defer")


def place_switch(app: Sphinx, config: Config) -> None:
    """Put the switch beside the theme's first button, in the bar above a page."""
    bar = ["toggle-primary-sidebar.html", "languages.html"]
    config.html_theme_options["article_header_start"] = bar
    config.html_theme_options["search_bar_text"] = tr("Search this book...")


# Anchors.


@cache
def english_headings() -> dict[str, str]:
    """Return what each heading in the language of the site is in English."""
    headings: dict[str, str] = {}
    for entry in spoken().catalog:
        # What awaits a translator (it is fuzzy) is shown in English.
        if entry.string and not entry.fuzzy and entry.id.startswith("#"):
            headings[plain(entry.string)] = plain(entry.id)
    return headings


def plain(heading: str) -> str:
    return re.sub(r"^#+ |[`*]", "", heading)


def slug(heading: str) -> str:
    """Return the anchor by which links name a heading; `_config.yml` names this function."""
    return default_slugify(english_headings().get(heading, heading))


def name_sections(app: Sphinx, doctree: nodes.document) -> None:
    """Give each section the anchor that it has in English, here and for links to it."""
    if spoken().is_english:
        return
    renamed = rename_sections(doctree)
    for link in doctree.findall(nodes.reference):
        if link.get("refid") in renamed:
            link["refid"] = renamed[link["refid"]]

    slugs = app.env.metadata[app.env.docname].get("myst_slugs", {})
    for key, (line, anchor, title) in slugs.items():
        slugs[key] = (line, renamed.get(anchor, anchor), title)


def rename_sections(doctree: nodes.document) -> dict[str, str]:
    """Rename the sections; return their new anchors by the old ones."""
    renamed = {}
    for section in doctree.findall(nodes.section):
        english = english_headings().get(plain(section[0].rawsource))
        if not english:
            continue
        anchor = nodes.make_id(english)
        if anchor not in doctree.ids:
            renamed[section["ids"][0]] = anchor
            doctree.ids[anchor] = section
            section["ids"][0] = anchor
    return renamed


# The switch, and the words of templates and scripts.


def offer_languages(
    app: Sphinx,
    page: str,
    template: str,
    context: dict[str, Any],
    doctree: nodes.document | None,
) -> None:
    """Give the templates a link to the page in every language, and its own language."""
    language = spoken()
    book = read_book(Path(app.srcdir))
    context["tr"] = tr
    context["_"] = translate_theme
    context["words"] = script_words(book.root)
    context["spoken"] = language.tag
    context["languages"] = page_in_languages(page, book.root, book.repository.site)
    if doctree and not book.is_translated(page):
        context["language"] = "en"


def page_in_languages(page: str, root: Path, site: str) -> list[dict[str, str]]:
    """Return the links from `page` to itself in every language, with their addresses."""
    depth = page.count("/")
    if not spoken().is_english:
        depth += 1
    links = []
    for language in (ENGLISH, *read_languages(root).values()):
        path = f"{page}.html"
        if not language.is_english:
            path = f"{language.code}/{path}"
        links.append(
            {
                "name": language.name,
                "tag": language.tag,
                "href": "../" * depth + path,
                "address": site + path,
            }
        )
    return links


@cache
def script_words(root: Path) -> dict[str, str]:
    """Return what scripts say, and how that is said in the language of the site."""
    if spoken().is_english:
        return {}
    from tools.languages.messages import SCRIPTS, marked_words

    messages = marked_words(root, [SCRIPTS])
    return {words: tr(words) for words in messages if tr(words) != words}


def translate_theme(text: str) -> str:
    """Translate words of the theme: by our translations or, if they lack them, by its own."""
    translation = tr(text)
    if translation == text:
        return _(text)
    return translation


# Searches.


class Chinese(SearchLanguage):
    """Indexes every two neighbouring signs, as Chinese sets no space between words.

    A browser knows which signs of a query make a word.
    """

    lang = "zh"
    js_splitter_code = """
var splitQuery = (query) => {
  const words = [...new Intl.Segmenter("zh", { granularity: "word" }).segment(query)];
  return words.filter((word) => word.isWordLike).flatMap(({ segment }) =>
    /^[\\u3400-\\u9fff]{2}/.test(segment)
      ? [...segment.slice(1)].map((sign, i) => segment[i] + sign)
      : /^[\\u3400-\\u9fff]/.test(segment) ? [] : [segment]);
};
"""

    def split(self, input: str) -> list[str]:
        words = []
        for run in CHINESE.split(input):
            if CHINESE.match(run) and len(run) > 1:
                words += [first + second for first, second in pairwise(run)]
            else:
                words += super().split(run)
        return words


class Vietnamese(SearchLanguage):
    """Finds words with their marks and without."""

    lang = "vi"
    js_stemmer_code = r"""
var Stemmer = function () {
  this.stemWord = (word) => word.normalize("NFD").replace(/\p{M}/gu, "").replace(/đ/g, "d");
};
"""

    def stem(self, word: str) -> str:
        signs = unicodedata.normalize("NFD", word.lower())
        letters = [sign for sign in signs if not unicodedata.combining(sign)]
        return "".join(letters).replace("đ", "d")
