// The deck: one slide at a time, scaled to the window. What does not fit is set smaller.
"use strict";

(() => {
  const PLACE = `slide of ${location.pathname}`; // kept, so that other windows with this deck follow
  const root = document.documentElement;
  const slides = [...document.querySelectorAll(".slide")];
  let current = 0;

  // Covers are opened while a slide is measured: nothing moves when one is opened later.
  function fit(slide) {
    const sheet = slide.querySelector(".sheet");
    const closed = slide.querySelectorAll(".covered:not([open]), .choice.right:not([open])");
    for (const cover of closed) cover.open = true;
    const largest = slide.querySelector("pre, table, svg, img") ? 100 : 130; // text alone
    for (let zoom = largest; zoom >= 30; zoom -= 5) {
      sheet.style.zoom = `${zoom}%`;
      if (slide.scrollHeight <= slide.clientHeight && slide.scrollWidth <= slide.clientWidth) break;
    }
    for (const cover of closed) cover.open = false;
  }

  function show(place) {
    current = Math.max(0, Math.min(slides.length - 1, place || 0));
    slides.forEach((slide, i) => slide.classList.toggle("current", i === current));
    fit(slides[current]);
    history.replaceState(null, "", `#${current + 1}`);
  }

  function go(place) {
    show(place);
    try {
      localStorage.setItem(PLACE, current);
    } catch {
      // a browser that keeps nothing: windows go their own ways
    }
  }

  // What answers is uncovered before the next slide comes.
  function step() {
    const cover = slides[current].querySelector(
      ".covered:not([open]), .choice.right:not([open])",
    );
    if (cover) cover.open = true;
    else go(current + 1);
  }

  const opens = (slide) => slide.matches(".section, .title");

  function nextRunner() {
    const sets = [...document.querySelectorAll(".runner-tabs")];
    const most = Math.max(...sets.map((set) => set.childElementCount)); // not all have all runners
    const tabs = [...(sets.find((set) => set.childElementCount === most)?.children ?? [])];
    const chosen = tabs.findIndex((tab) => tab.ariaSelected === "true");
    tabs[(chosen + 1) % tabs.length]?.click();
    fit(slides[current]);
  }

  const KEYS = {
    " ": (event) => (event.shiftKey ? go(current - 1) : step()),
    ArrowRight: step,
    PageDown: step,
    ArrowLeft: () => go(current - 1),
    PageUp: () => go(current - 1),
    ArrowDown: () => go(slides.findIndex((slide, i) => i > current && opens(slide)) || 0),
    ArrowUp: () => go(slides.findLastIndex((slide, i) => i < current && opens(slide))),
    Home: () => go(0),
    End: () => go(slides.length - 1),
    n: () => {
      root.classList.toggle("whole");
      fit(slides[current]);
    },
    r: nextRunner,
    t: () => (root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark"),
    f: () => (document.fullscreenElement ? document.exitFullscreen() : root.requestFullscreen()),
  };

  document.addEventListener("keydown", (event) => {
    const action = KEYS[event.key.length > 1 ? event.key : event.key.toLowerCase()];
    const own = event.key === " " && event.target.closest("summary, button, a");
    if (!action || own || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey)
      return;
    event.preventDefault();
    action(event);
  });
  document.addEventListener("click", (event) => {
    if (event.detail) document.activeElement.blur(); // by mouse: the space bar steps on
  });
  window.addEventListener("storage", (event) => {
    if (event.key === PLACE) show(Number(event.newValue));
  });
  window.addEventListener("hashchange", () => show(location.hash.slice(1) - 1));
  window.addEventListener("beforeprint", () => slides.forEach(fit));

  const scale = () =>
    root.style.setProperty("--scale", Math.min(innerWidth / 1280, innerHeight / 720));
  window.addEventListener("resize", scale);
  root.classList.add("deck");
  scale();
  document.fonts.ready.then(() => show(location.hash.slice(1) - 1));
})();
