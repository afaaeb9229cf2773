// Outputs by runner: choosing a tab chooses that runner everywhere on the page, and on the
// pages to come. Loaded before the page is drawn, so that hidden outputs never flash up.
"use strict";

(() => {
  const KEY = "runner";
  document.documentElement.classList.add("with-tabs");

  function remembered() {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // a browser that keeps nothing: the choice lasts as long as the page
    }
  }

  function remember(runner) {
    try {
      localStorage.setItem(KEY, runner);
    } catch {
      // as above
    }
  }

  const tabsOf = (set) => [...set.querySelectorAll('[role="tab"]')];

  // Show `runner` in one set of tabs; a set without it shows its first.
  function show(set, runner) {
    const tabs = tabsOf(set);
    const chosen = tabs.find((tab) => tab.dataset.runner === runner) ?? tabs[0];
    for (const tab of tabs) {
      tab.setAttribute("aria-selected", String(tab === chosen));
      tab.tabIndex = tab === chosen ? 0 : -1;
      const panel = document.getElementById(tab.getAttribute("aria-controls"));
      panel.classList.toggle("shown", tab === chosen);
    }
  }

  const showAll = (runner) =>
    document.querySelectorAll(".runner-outputs").forEach((set) => show(set, runner));

  // Outputs above may grow or shrink; the tab that was chosen stays where it is on the screen.
  function choose(tab) {
    const before = tab.getBoundingClientRect().top;
    showAll(tab.dataset.runner);
    remember(tab.dataset.runner);
    document.dispatchEvent(new CustomEvent("machine", { detail: tab.dataset.runner }));
    window.scrollBy({ top: tab.getBoundingClientRect().top - before, behavior: "instant" });
  }

  const STEPS = { ArrowLeft: -1, ArrowRight: 1, Home: "first", End: "last" };

  function move(event) {
    const step = STEPS[event.key];
    if (step === undefined) return;
    const tabs = tabsOf(event.currentTarget);
    const ends = { first: 0, last: tabs.length - 1 };
    const next = ends[step] ?? (tabs.indexOf(event.target) + step + tabs.length) % tabs.length;
    event.preventDefault();
    tabs[next].focus();
    choose(tabs[next]);
  }

  document.addEventListener("DOMContentLoaded", () => {
    showAll(new URLSearchParams(location.search).get("machine") ?? remembered());
    for (const set of document.querySelectorAll(".runner-outputs")) {
      const list = set.querySelector('[role="tablist"]');
      list.addEventListener("click", (event) => {
        const tab = event.target.closest('[role="tab"]');
        if (tab) choose(tab);
      });
      list.addEventListener("keydown", move);
    }
  });

  // Another window chose: follow it.
  window.addEventListener("storage", (event) => {
    if (event.key === KEY) showAll(event.newValue);
  });
})();
