"""The decks: whole, within their slides, covered until the step, one a page on paper."""

import re
import shutil
from html import unescape

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from helpers import CHAPTERS, H100, ROOT, code, copy_kernel, display, dress, keep, make_book, prose
from helpers import write as write_chapter

from tools.book.book import Book
from tools.book.chapters import PREDICTED
from tools.book.figures import FIGURE
from tools.book.notebooks import tags
from tools.rules.exercises import exercises
from tools.rules.predictions import predictions
from tools.rules.questions import questions
from tools.site.slides_deck import make_deck
from tools.site.slides_prose import ROOM
from tools.site.slides_reveal import DIGEST, FILES, FOLDER
from tools.site.slides_write import DECKS, deck_page, write_decks

MOST = 2 * 2**20  # bytes of a deck
BOOK = Book(ROOT)
WITH_THREE = "computing-devices"  # runners


@pytest.fixture(scope="session")
def decks(once):
    """The folder of this repository's decks."""
    return once("slides", lambda folder: write_decks(BOOK, folder)) / DECKS


PARTS = (
    "pre class=",
    "<table",
    '<figure class="timeline',
    "<img",
    'class="figure',
    "formula",
    "<ol",
)


@pytest.fixture(scope="session")
def sample(once):
    """A deck of one slide of every look that there is, in a file of its own."""

    def make(folder):
        found = {}
        for chapter in BOOK.chapters.values():
            for slide in make_deck(chapter, BOOK).slides:
                look = (
                    slide.looks,
                    *(part in slide.body for part in PARTS),
                    "by-runner" in slide.body,
                )
                found.setdefault(look, slide)
        deck = make_deck(BOOK.chapters[WITH_THREE], BOOK)
        named = {f"{number}-{slide.name}": slide for number, slide in enumerate(found.values())}
        for name, slide in named.items():
            slide.name = name  # two chapters may have a cell of the same name
        deck.groups = [[*named.values()]]
        folder.mkdir()
        (folder / "deck.html").write_text(deck_page(deck, BOOK), encoding="utf-8")

    return once("sample-of-slides", make) / "deck.html"


@pytest.fixture(scope="module")
def deck_of():
    """Makes the deck of a chapter, without a file."""
    made = {}

    def deck(name):
        if name not in made:
            made[name] = make_deck(BOOK.chapters[name], BOOK)
        return made[name]

    return deck


def opened(browser, path, query="", width=1280, height=720, **options):
    """A deck as from a disk, and what it asked for beside itself, and its errors."""
    context = browser.new_context(viewport={"width": width, "height": height}, **options)
    page, faults, own = context.new_page(), [], path.as_uri()
    page.on(
        "request",
        lambda it: it.url.startswith((own, "data:")) or faults.append(f"asks for {it.url[:80]}"),
    )
    page.on("pageerror", lambda error: faults.append(f"script: {error}"))
    page.on("console", lambda it: it.type == "error" and faults.append(f"console: {it.text}"))
    page.goto(f"{own}{query}")
    if options.get("java_script_enabled", True):
        page.wait_for_function("window.Reveal && Reveal.isReady()")
    return page, faults


# Steps through a deck as a lecturer does, and says what is wrong on the way.
WALK = """async () => {
  await document.fonts.ready;
  const faults = [], scale = Reveal.getScale(), slides = Reveal.getSlides();
  const seen = (element) => element.checkVisibility({ visibilityProperty: true });
  for (const slide of slides) {
    const { h, v } = Reveal.getIndices(slide);
    Reveal.slide(h, v, -1);
    const covered = [...slide.querySelectorAll(".fragment:not(.custom)")];
    for (const each of covered) if (seen(each)) faults.push(`${slide.id}: not covered`);
    for (const right of slide.querySelectorAll(".right"))
      if (getComputedStyle(right).backgroundColor !== "rgba(0, 0, 0, 0)")
        faults.push(`${slide.id}: the right choice is marked`);
    while (Reveal.availableFragments().next) Reveal.nextFragment();
    for (const each of covered) if (!seen(each)) faults.push(`${slide.id}: not uncovered`);
    const sheet = slide.querySelector(".sheet"), box = slide.getBoundingClientRect();
    const [foot, right] = [box.top + 676 * scale, box.left + 1218 * scale];
    for (const each of sheet.querySelectorAll("*")) {
      const { bottom, right: end, height } = each.getBoundingClientRect();
      if (!height || !seen(each) || each.closest(".timeline-view svg svg")) continue;
      if (bottom > foot || end > right)
        faults.push(`${slide.id}: runs over: ${each.outerHTML.slice(0, 60)}`);
    }
    const parts = [...slide.querySelectorAll(".body > *")].filter(seen);
    parts.forEach((part, i) => {
      const next = parts[i + 1]?.getBoundingClientRect();
      const drawn = [part, ...part.querySelectorAll("svg, img")];
      const low = Math.max(...drawn.map((each) => each.getBoundingClientRect().bottom));
      if (next && low > next.top + 1) faults.push(`${slide.id}: parts overlap`);
    });
    const letters = [...sheet.querySelectorAll("p, li, pre, td")].filter(seen);
    for (const each of letters)
      if (!each.closest(".timeline") && parseFloat(getComputedStyle(each).fontSize) < 19)
        faults.push(`${slide.id}: small letters`);
  }
  return faults;
}"""


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_deck_is_stepped_through(browser, decks, name):
    page, faults = opened(browser, decks / f"{name}.html")
    assert page.evaluate(WALK) + faults == []
    page.context.close()


@pytest.mark.parametrize("query", ["", "?theme=dark", "?runner=cpu", "?runner=simulated-mps"])
def test_so_are_slides_of_every_look_on_another_screen(browser, sample, query):
    page, faults = opened(browser, sample, query, width=1024, height=768)
    assert page.evaluate(WALK) + faults == []
    page.context.close()


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("</main>", '<img src="https://example.org/a.png"></main>', "asks for https://example"),
        ("</main>", "<script>fault()</script></main>", "script: fault is not defined"),
        ('<div class="body">', '<div class="body"><p style="height:700px">', "runs over"),
        (
            '<div class="body">',
            '<div class="body"><p style="width:1300px;height:9px">',
            "runs over",
        ),
        (
            "</style>",
            ".fragment { opacity: 1 !important; visibility: visible !important }</style>",
            "not covered",
        ),
        ("</style>", ".fragment { visibility: hidden !important }</style>", "not uncovered"),
        ("</style>", ".body li { font-size: 12px }</style>", "small letters"),
        (".deck .choices .right:not(.visible)", ".other", "the right choice is marked"),
        ("</style>", ".picture svg { height: 150% !important }</style>", "parts overlap"),
    ],
)
def test_a_doctored_deck_is_noticed(browser, sample, tmp_path, old, new, fault):
    text = sample.read_text(encoding="utf-8")
    assert old in text
    (tmp_path / "deck.html").write_text(text.replace(old, new), encoding="utf-8")
    page, faults = opened(browser, tmp_path / "deck.html")
    assert any(fault in each for each in page.evaluate(WALK) + faults)
    page.context.close()


def shown_runners(page):
    """The runners whose outputs are not hidden, over all slides."""
    find = ".by-runner > :not([hidden])"
    return set(page.locator(find).evaluate_all("all => all.map(each => each.dataset.runner)"))


def test_a_key_or_a_button_switches_the_runner_of_all_slides(browser, decks):
    page, _ = opened(browser, decks / f"{WITH_THREE}.html")
    sets = page.locator(".by-runner").count()
    assert sets > 5
    for runner in ("simulated", "cpu", "simulated-mps", "simulated"):
        assert shown_runners(page) == {runner}
        assert page.locator(".by-runner > :not([hidden])").count() == sets
        pressed = page.locator(".runners [aria-pressed=true]")
        assert pressed.evaluate_all("all => all.map(one => one.dataset.runner)") == [runner]
        page.keyboard.press("r")
    page.click(".runners button:has-text('No GPU')")
    assert shown_runners(page) == {"cpu"}
    page.reload()
    page.wait_for_function("window.Reveal && Reveal.isReady()")
    assert shown_runners(page) == {"cpu"}  # kept
    page.context.close()


def test_an_address_names_the_runner_and_the_theme(browser, decks):
    page, _ = opened(browser, decks / f"{WITH_THREE}.html", "?runner=cpu&theme=dark")
    assert shown_runners(page) == {"cpu"}
    assert page.locator("html").get_attribute("data-theme") == "dark"
    page.keyboard.press("t")
    assert page.locator("html").get_attribute("data-theme") == "light"
    page.context.close()


def test_the_view_of_the_speaker_has_the_notes_and_asks_nobody(browser, decks):
    page, faults = opened(browser, decks / f"{WITH_THREE}.html", "#/device-bandwidth")
    page.context.on(
        "request",
        lambda it: it.url.startswith(("file:", "data:", "about:")) or faults.append(it.url),
    )
    with page.context.expect_page() as opening:
        page.keyboard.press("s")
    speaker = opening.value
    speaker.wait_for_function(
        "document.querySelector('.speaker-controls-notes .value')?.innerText.length > 100"
    )
    said = speaker.locator(".speaker-controls-notes .value").inner_text()
    assert "version 5 carries 32" in said  # a sentence that the slide leaves out
    assert faults == []
    page.context.close()


AXE = "axe.run({ resultTypes: ['violations'], preload: false })"
# reveal.js has an empty layer behind its slides, for which axe leaves contrast undecided.
PLAIN = ".backgrounds { display: none !important }"


def violations(page, style=PLAIN):
    """What axe-core finds on a page."""
    page.add_style_tag(content=style)
    page.evaluate(f"window.axe || (() => {{ {AXE_SCRIPT} }})()")
    found = page.evaluate(AXE)["violations"]
    return [f"{rule['id']}: {node['html'][:120]}" for rule in found for node in rule["nodes"]]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_on_slides_of_every_look(browser, sample, tmp_path, theme):
    """All of them at once: as they stand below one another without scripts."""
    text = re.sub(r"<script>.*?</script>", "", sample.read_text(encoding="utf-8"), flags=re.S)
    text = text.replace('data-theme="light"', f'data-theme="{theme}"', 1)
    (tmp_path / "deck.html").write_text(text, encoding="utf-8")
    page = browser.new_page()
    page.goto((tmp_path / "deck.html").as_uri())
    assert page.locator("section.slide").count() > 20
    assert violations(page) == []
    page.close()


@pytest.mark.parametrize(("theme", "faint"), [("light", "#ccc"), ("dark", "#333")])
def test_axe_finds_nothing_in_the_deck_itself(browser, sample, theme, faint):
    page, _ = opened(browser, sample, f"?theme={theme}")
    page.evaluate("Reveal.slide(0, Reveal.getSlides().findIndex((s) => s.matches('.question')), 9)")
    assert page.locator(".right").first.is_visible()
    assert violations(page) == []
    found = violations(page, f".choices li {{ color: {faint} }}")
    assert any(fault.startswith("color-contrast") for fault in found)
    page.context.close()


def test_axe_finds_nothing_on_the_index(browser, decks):
    page = browser.new_page()
    page.goto((decks / "index.html").as_uri())
    assert violations(page) == []
    page.close()


def pages_of(page):
    """How many pages a print has."""
    return page.pdf(prefer_css_page_size=True, print_background=True).count(b"/Type /Page\n")


@pytest.mark.parametrize("query", ["", "?print-pdf", "?theme=dark"])
def test_a_slide_is_a_page_on_paper(browser, sample, query):
    page, _ = opened(browser, sample, query)
    slides = page.locator("section.slide").count()
    if query == "?print-pdf":
        page.wait_for_selector(".pdf-page")
        assert page.locator(".pdf-page").count() == slides
    page.emulate_media(media="print")
    answers = page.locator(".output")
    assert all(answers.evaluate_all("all => all.map(each => each.checkVisibility())"))
    page.emulate_media(media="null")
    assert pages_of(page) == slides
    page.context.close()


def test_without_scripts_a_deck_is_read_and_printed(browser, sample):
    page, faults = opened(browser, sample, java_script_enabled=False)
    assert faults == []
    slides = page.locator("section.slide")
    for part in (".output", ".ran", ".reason", "aside.notes"):
        assert all(each.is_visible() for each in page.locator(part).all()[:20])
    assert pages_of(page) == slides.count()
    page.context.close()


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_deck_has_what_its_chapter_asks_and_shows(deck_of, name):
    chapter, deck = BOOK.chapters[name], deck_of(name)
    names = [slide.name for slide in deck.slides]
    assert len(set(names)) == len(names)
    for cell in [*predictions(chapter), *questions(chapter)]:
        assert cell.id in names
    for exercise in exercises(chapter):
        assert exercise.asked.id in names
    text = "".join(block for slide in deck.slides for block in slide.blocks)
    for cell in chapter.notebook.cells:
        for match in FIGURE.finditer(cell.source):
            assert f'aria-label="{match["alt"]}"' in text.replace("&#x27;", "'")
        if PREDICTED in tags(cell):
            assert f'data-cell="{cell.id}"' in text
    places = {slide.name: number for number, slide in enumerate(deck.slides)}
    cells = [cell.id for cell in chapter.notebook.cells]
    for cell in predictions(chapter):
        answer = cells[cells.index(cell.id) + 1]
        holds = [
            number
            for number, slide in enumerate(deck.slides)
            if any(f'data-cell="{answer}"' in block for block in slide.blocks)
        ]
        assert holds and min(holds) > places[cell.id]
    assert all(slide.used <= ROOM / 0.84 for slide in deck.slides)


def words(html):
    """The text of a file, without its markup and spaces."""
    return re.sub(r"\s", "", unescape(re.sub(r"<[^>]*>", "", html)))


def solutions_in(text, chapter):
    """The exercises whose solution or wrong answer a text tells."""
    plain = words(text)
    return [
        exercise.number
        for exercise in exercises(chapter)
        for kind in ("solution", "wrong")
        for block in exercise.code(kind)
        if re.sub(r"\s", "", block) in plain
    ]


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_deck_tells_no_solution_and_is_light(decks, name):
    chapter, path = BOOK.chapters[name], decks / f"{name}.html"
    assert path.stat().st_size < MOST
    text = path.read_text(encoding="utf-8")
    body = text[text.index("<body>") : text.index("</main>")]
    assert solutions_in(body, chapter) == []
    assert 'id="solution-' not in body and 'id="holds-' not in body
    for exercise in exercises(chapter)[:1]:
        told = f"<pre>{exercise.code('solution')[0]}</pre>"
        assert solutions_in(body + told, chapter) == [exercise.number]


def test_the_index_lists_every_deck(decks):
    index = (decks / "index.html").read_text(encoding="utf-8")
    listed = re.findall(r'<a href="([\w-]+\.html)">', index)
    assert listed == [f"{name}.html" for name in BOOK.chapters]
    assert {path.name for path in decks.iterdir()} == {*listed, "index.html"}


# A tiny book, recorded on a card that nobody has.


@pytest.fixture
def small(tmp_path):
    """The root of a book whose first chapter was recorded on a card, too."""
    root = make_book(tmp_path / "book")
    shutil.copytree(ROOT / "cudasim" / "src", root / "cudasim" / "src")
    copy_kernel(root, "simulated")
    copy_kernel(root, "gpu")
    write_chapter(
        root,
        "first",
        prose("title", "# First\n\nA chapter <b>that</b> asks."),
        code("imports", "import sys"),
        prose("part", "## A part\n\nOne sentence. " + "Another that is left out. " * 9),
        prose("predict-it", "**Predict.** What is it?\n\n- `a < b`\n- nothing"),
        code("it", "slow()", ["predicted", "times"]),
        code("long", "\n".join(f"x{i} = {i}" for i in range(12)) + "\nx1"),
    )
    write_chapter(root, "second", prose("title", "# Second"), code("sum", "2 + 2"))
    dress(root)
    shutil.copytree(ROOT / "book" / "slides", root / "book" / "slides")
    for folder in ("cpu", "simulated", "h100"):
        facts = H100 | {"hardware": "NVIDIA H100"} if folder == "h100" else {}
        printed = {
            "it": [display(text_plain=f"'on {folder} ≈ 1 s <i>'")],
            "long": [display(text_plain="\n".join("x" * 400 for _ in range(40)))],
        }
        keep(root, "first", folder, printed, **facts)
        keep(root, "second", folder, {}, **facts)
    return root


def test_a_card_has_its_outputs_with_its_name_and_whose_times_they_are(small, browser):
    write_decks(Book(small))
    page, faults = opened(browser, small / DECKS / "first.html", "?runner=h100#/it")
    assert not page.locator("#it .output").is_visible()
    page.keyboard.press("Space")
    shown = page.locator("#it .output").inner_text()
    assert "NVIDIA H100" in shown and "Times measured on NVIDIA H100." in shown
    assert "'on h100 ≈ 1 s <i>'" in shown  # drawn as it is, no markup
    assert page.evaluate(WALK) + faults == []  # though lines and outputs are long
    assert page.locator("#part .body").inner_text().count("left out") <= 3
    assert page.locator("#part aside").text_content().count("left out") == 9
    page.context.close()


def test_a_deck_of_a_chapter_that_is_gone_goes(small):
    folder = small / DECKS
    write_decks(Book(small))
    (folder / "gone.html").write_text("old")
    write_decks(Book(small))
    assert sorted(path.name for path in folder.iterdir()) == [
        "first.html",
        "index.html",
        "second.html",
    ]


def test_reveal_is_that_of_the_pinned_package():
    assert {path.name for path in (ROOT / FOLDER).iterdir()} == set(FILES)
    assert "MIT licensed" in (ROOT / FOLDER / "reveal.js").read_text(encoding="utf-8")
    assert len(DIGEST) == 64
