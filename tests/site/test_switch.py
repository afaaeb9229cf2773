"""The page of a chapter in two frameworks: one at a time, or both below one another."""

import json

from browsing import NARROW, WIDE, opened
from faults import layout_faults, look, violations

PAGE = "notebooks/third.html"


PRINTED = "torch: cpu", "torch: cuda", "jax: cpu", "jax: gpu"


def shown(page):
    """What is in sight of what was printed."""
    return [text for text in PRINTED if page.get_by_text(text, exact=True).is_visible()]


def test_the_switch_shows_one_framework_and_address_and_memory_keep_the_choice(
    browser, tiny_site
):
    with opened(browser, tiny_site, f"{PAGE}?machine=cpu") as (page, faults):
        place, torch, jax = (
            page.url,
            page.get_by_label("PyTorch"),
            page.get_by_label("JAX"),
        )
        assert shown(page) == ["torch: cpu"] and torch.is_checked()
        assert page.get_by_text("Of torch alone.").is_hidden()  # folded, and
        assert page.get_by_text("Of both.").is_visible()  # not in that section
        torch.focus()
        page.keyboard.press("ArrowRight")
        assert shown(page) == ["jax: cpu"] and jax.is_checked()
        assert page.url.endswith("?machine=cpu&framework=jax")
        page.locator("[role=tab]:visible", has_text="2 GPUs").click()
        assert shown(page) == ["jax: gpu"]
        assert page.url.endswith("?machine=simulated&framework=jax")
        assert (
            page.get_by_role("link", name="Deeper: a trainer").count() == 0
        )  # in the contents
        page.locator("details.machinery:visible > summary").first.click()
        for label in ("Google Colab", "Download"):
            [link] = page.get_by_role("link", name=label, exact=True).all()
            assert link.get_attribute("href").endswith("/third-jax.ipynb")
        page.goto(place.partition("?")[0])
        assert shown(page) == ["jax: gpu"]
        page.goto(f"{place.partition('?')[0]}#deeper-a-trainer")
        page.reload()
        assert shown(page) == ["torch: cuda"]  # to which the link leads
        page.emulate_media(media="print")
        assert shown(page) == ["torch: cpu", "torch: cuda"] and faults == []


def test_a_name_in_the_address_that_is_not_there_is_one_line_and_the_default(
    browser, tiny_site
):
    with opened(browser, tiny_site, f"{PAGE}?framework=theano&machine=tpu") as (
        page,
        faults,
    ):
        assert shown(page) == ["torch: cuda"]
        said = page.get_by_role("status").filter(has_text="This page has")
        assert said.inner_text() == (
            "This page has no framework 'theano'. It has pytorch, jax. "
            "This page has no machine 'tpu'. It has simulated, cpu."
        )
        for width, scheme in ((WIDE, "light"), (NARROW, "dark")):
            look(page, width, scheme)
            assert violations(page) + layout_faults(page) + faults == []


def test_without_scripts_all_stand_under_their_names_and_common_text_once(
    browser, tiny_site
):
    with opened(browser, tiny_site, PAGE, java_script_enabled=False) as (page, faults):
        assert shown(page) == [*PRINTED]
        names = page.locator(".framework-name").all_inner_texts()
        assert {*names} == {"PyTorch", "JAX"} and not page.get_by_label(
            "JAX"
        ).is_visible()
        assert page.get_by_text("A commonplace.").count() == 1 and faults == []
    index = (tiny_site / "searchindex.js").read_text(encoding="utf-8")
    found = json.loads(index.removeprefix("Search.setIndex(").removesuffix(")"))
    assert "notebooks/third-jax" not in found["docnames"]
    assert found["terms"]["commonplac"] == found["docnames"].index("notebooks/third")
    assert (tiny_site / "_sources" / "notebooks" / "third-jax.ipynb").is_file()
