"""The page of a chapter in two frameworks: one at a time, or both below one another."""

import json

from browsing import NARROW, WIDE, opened
from faults import layout_faults, look, violations

PAGE = "notebooks/third.html"
PRINTED = ["torch: cpu", "torch: cuda", "jax: cpu", "jax: gpu"]


def shown(page):
    """Return what is in sight of what was printed."""
    return [text for text in PRINTED if page.get_by_text(text, exact=True).is_visible()]


def test_the_switch_shows_one_framework(browser, tiny_site):
    with opened(browser, tiny_site, f"{PAGE}?machine=cpu") as (page, faults):
        torch, jax = page.get_by_label("PyTorch"), page.get_by_label("JAX")
        assert shown(page) == ["torch: cpu"]
        assert torch.is_checked()
        # The section of one framework is folded, and what is of both is not in it.
        assert page.get_by_text("Of torch alone.").is_hidden()
        assert page.get_by_text("Of both.").is_visible()

        torch.focus()
        page.keyboard.press("ArrowRight")
        assert shown(page) == ["jax: cpu"]
        assert jax.is_checked()
        assert page.url.endswith("?machine=cpu&framework=jax")
        page.locator("[role=tab]:visible", has_text="2 GPUs").click()
        assert shown(page) == ["jax: gpu"]
        assert page.url.endswith("?machine=simulated&framework=jax")

        # The section of the other framework is not in the contents.
        assert page.get_by_role("link", name="Deeper: a trainer").count() == 0
        page.locator("details.machinery:visible > summary").first.click()
        for label in ("Google Colab", "Download"):
            [link] = page.get_by_role("link", name=label, exact=True).all()
            assert link.get_attribute("href").endswith("/third-jax.ipynb")
        assert faults == []


def test_the_choice_of_a_framework_is_kept(browser, tiny_site):
    choice = f"{PAGE}?machine=simulated"
    with opened(browser, tiny_site, choice) as (page, faults):
        place, _, _ = page.url.partition("?")
        page.get_by_label("JAX").check()
        page.locator("[role=tab]:visible", has_text="2 GPUs").click()
        page.goto(place)
        assert shown(page) == ["jax: gpu"]
        # A link to what only another framework has shows that one.
        page.goto(f"{place}#deeper-a-trainer")
        page.reload()
        assert shown(page) == ["torch: cuda"]
        page.emulate_media(media="print")
        assert shown(page) == ["torch: cpu", "torch: cuda"]
        assert faults == []


def test_a_name_that_is_not_there_gets_the_default(browser, tiny_site):
    unknown = f"{PAGE}?framework=theano&machine=tpu"
    with opened(browser, tiny_site, unknown) as (page, faults):
        assert shown(page) == ["torch: cuda"]
        message = page.get_by_role("status").filter(has_text="This page has")
        assert message.inner_text() == (
            "This page has no framework 'theano'. It has pytorch, jax. "
            "This page has no machine 'tpu'. It has simulated, cpu."
        )
        for width, scheme in ((WIDE, "light"), (NARROW, "dark")):
            look(page, width, scheme)
            assert violations(page) + layout_faults(page) + faults == []


def test_without_scripts_all_stand_under_their_names(browser, tiny_site):
    with opened(browser, tiny_site, PAGE, java_script_enabled=False) as (page, faults):
        assert shown(page) == PRINTED
        names = page.locator(".framework-name").all_inner_texts()
        assert set(names) == {"PyTorch", "JAX"}
        assert not page.get_by_label("JAX").is_visible()
        assert page.get_by_text("A commonplace.").count() == 1
        assert faults == []


def test_both_frameworks_are_found_on_one_page(tiny_site):
    text = (tiny_site / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
    assert "notebooks/third-jax" not in index["docnames"]
    page = index["docnames"].index("notebooks/third")
    assert index["terms"]["commonplac"] == page
    assert (tiny_site / "_sources" / "notebooks" / "third-jax.ipynb").is_file()
