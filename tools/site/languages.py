"""The site in several languages: a switch, the same anchors in all, and a search for each.

Every language has the same pages at the same addresses, below a folder with its code. Anchors are
made of the English headings, so that a link holds in all; `book/static/languages.js` keeps the
place when the reader switches.
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

from tools.languages.language import read_languages
from tools.languages.messages import MARKED
from tools.site import speech
from tools.site.extension import read_pages
from tools.site.speech import tr

CHINESE = re.compile(r"([\u3400-\u9fff]+)")


class Chinese(SearchLanguage):
    """Indexes each two neighbours, as Chinese sets no space between words; a browser knows which
    of a query make one."""

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
        found = []
        for run in CHINESE.split(input):
            pairs = [*map("".join, pairwise(run))]
            found += pairs if pairs and CHINESE.match(run) else super().split(run)
        return found


class Vietnamese(SearchLanguage):
    """Finds words with their marks and without."""

    lang = "vi"
    js_stemmer_code = r"""
var Stemmer = function () {
  this.stemWord = (word) => word.normalize("NFD").replace(/\p{M}/gu, "").replace(/đ/g, "d");
};
"""

    def stem(self, word: str) -> str:
        letters = unicodedata.normalize("NFD", word.lower())
        bare = "".join(
            letter for letter in letters if not unicodedata.combining(letter)
        )
        return bare.replace("đ", "d")


def setup(app: Sphinx) -> None:
    for language in (Chinese, Vietnamese):
        app.add_search_language(language)
    app.connect("config-inited", place_switch)
    app.connect(
        "doctree-read", name_sections, priority=50
    )  # before anything refers to them
    app.connect("html-page-context", offer)
    app.add_js_file("languages.js", loading_method="defer")


def place_switch(app: Sphinx, config: Config) -> None:
    """Beside the theme's first button, in the bar above a page."""
    bar = ["toggle-primary-sidebar.html", "languages.html"]
    config.html_theme_options["article_header_start"] = bar
    config.html_theme_options["search_bar_text"] = tr("Search this book...")


@cache
def headings() -> dict[str, str]:
    """Each heading in the language of the site, and what it is in English."""
    language = speech.spoken()
    pairs = [(each.string, each.id) for each in language.catalog] if language else []
    return {
        plain(said): plain(english)
        for said, english in pairs
        if said and english[:1] == "#"
    }


def plain(heading: str) -> str:
    return re.sub(r"^#+ |[`*]", "", heading)


def slug(heading: str) -> str:
    """By what links name a heading; `_config.yml` names this function."""
    return default_slugify(headings().get(heading, heading))


def name_sections(app: Sphinx, doctree: nodes.document) -> None:
    """Give each section the anchor that it has in English, here and for links to it."""
    renamed = {}
    for section in doctree.findall(nodes.section) if speech.spoken() else ():
        english = headings().get(plain(section[0].rawsource))
        name = nodes.make_id(english or "")
        if english and name not in doctree.ids:
            renamed[section["ids"][0]] = name
            doctree.ids[name], section["ids"][0] = section, name
    for link in doctree.findall(nodes.reference):
        if link.get("refid") in renamed:
            link["refid"] = renamed[link["refid"]]
    about = app.env.metadata[app.env.docname]
    for key, (line, id, title) in about.get("myst_slugs", {}).items():
        about["myst_slugs"][key] = line, renamed.get(id, id), title


@cache
def words(root: Path) -> dict[str, str]:
    """What scripts say, and how that is said in the language of the site."""
    texts = [
        file.read_text("utf-8") for file in (root / "book" / "static").glob("*.js")
    ]
    said = {match["said"] for text in texts for match in MARKED.finditer(text)}
    return {each: tr(each) for each in sorted(said) if tr(each) != each}


def said_by_theme(text: str) -> str:
    """In the language of the site, as we say it, in `book/templates/layout.html`, or the theme."""
    return _(text) if tr(text) == text else tr(text)


def offer(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Let a page lead to itself in the other languages; one not translated is marked English."""
    language, root = speech.spoken(), Path(app.srcdir)
    up = "../" * (page.count("/") + bool(language))
    context |= {
        "tr": tr,
        "_": said_by_theme,
        "words": words(root),
        "spoken": language.tag if language else "en",
    }
    site = read_pages(root)[0].repository.site
    places = [("English", "en", f"{page}.html")] + [
        (each.settings["name"], each.tag, f"{code}/{page}.html")
        for code, each in read_languages(root).items()
    ]
    context["languages"] = [
        {"name": name, "tag": tag, "href": up + place, "address": site + place}
        for name, tag, place in places
    ]
    if language and doctree and page not in read_pages(root)[0].translated:
        context["language"] = "en"
