"""The pages in a browser: whatever goes wrong on one is noticed; the index leads to the first."""

import pytest
from browsing import opened, opened_text
from helpers import ROOT

from tools.book.book import Book


def test_the_index_leads_to_the_first_page(browser, site):
    with opened(browser, site, "index.html", until="networkidle") as (page, faults):
        page.wait_for_url(f"**/{Book(ROOT).documents[0]}.html", wait_until="networkidle")
        assert faults == []


@pytest.mark.parametrize(
    ("addition", "fault"),
    [
        ('<script src="https://cdn.example.org/a.js"></script>', "asks another host"),
        ("<script>fetch('https://api.example.org/')</script>", "asks another host"),
        ('<img src="missing.png">', "answers 404"),
        ("<script>console.error('a fault')</script>", "console: a fault"),
        ("<script>undefined_function()</script>", "script:"),
        ("<script>Promise.reject(new Error('a fault'))</script>", "script: a fault"),
    ],
)
def test_a_doctored_page_is_noticed(browser, tmp_path, addition, fault):
    page = f"<!doctype html><title>Page</title>{addition}"
    with opened_text(browser, tmp_path, page) as (_, faults):
        assert any(found.startswith(fault) for found in faults)
