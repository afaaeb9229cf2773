// The deck: reveal.js steps through it; R shows the outputs of the next runner on all slides,
// T changes between light and dark. Both are kept, also for the windows of the speaker's view.
"use strict";

(() => {
  const RUNNER = "runner"; // as on the pages of the site
  const THEME = "slides-theme";
  const root = document.documentElement;
  const asked = new URLSearchParams(location.search);

  function kept(key) {
    try {
      return localStorage.getItem(key);
    } catch {
      return null; // a browser that keeps nothing: choices last as long as the deck is open
    }
  }

  function keep(key, value) {
    try {
      localStorage.setItem(key, value);
    } catch {
      // as above
    }
  }

  const buttons = [...document.querySelectorAll(".runners button")];
  const runners = buttons.map((button) => button.dataset.runner);
  let current = runners[0];

  // Show the outputs of one runner everywhere; a set without them shows its first.
  function show(runner) {
    if (runners.includes(runner)) current = runner;
    for (const set of document.querySelectorAll(".by-runner")) {
      const panels = [...set.children];
      const chosen = panels.find((panel) => panel.dataset.runner === current) ?? panels[0];
      for (const panel of panels) panel.hidden = panel !== chosen;
    }
    for (const button of buttons)
      button.setAttribute("aria-pressed", String(button.dataset.runner === current));
  }

  function choose(runner) {
    show(runner);
    keep(RUNNER, current);
  }

  function paint(theme) {
    root.dataset.theme = theme === "dark" ? "dark" : "light";
  }

  const bind = (key, description, action) =>
    Reveal.addKeyBinding({ keyCode: key.charCodeAt(0), key, description }, action);

  show(asked.get(RUNNER) ?? kept(RUNNER));
  for (const button of buttons)
    button.addEventListener("click", () => {
      choose(button.dataset.runner);
      button.blur(); // so that the space bar steps on
    });

  // Another window of this deck chose: follow it.
  window.addEventListener("storage", (event) => {
    if (event.key === RUNNER) show(event.newValue);
    if (event.key === THEME) paint(event.newValue);
  });

  Reveal.initialize({
    width: 1280,
    height: 720,
    margin: 0,
    center: false,
    hash: true,
    transition: "none",
    backgroundTransition: "none",
    slideNumber: "c/t",
    controlsTutorial: false,
    pdfSeparateFragments: false,
    pdfMaxPagesPerSlide: 1,
    plugins: [RevealNotes],
  });
  bind("R", "Outputs of the next runner", () => {
    if (runners.length) choose(runners[(runners.indexOf(current) + 1) % runners.length]);
  });
  bind("T", "Light or dark", () => {
    paint(root.dataset.theme === "dark" ? "light" : "dark");
    keep(THEME, root.dataset.theme);
  });
})();
