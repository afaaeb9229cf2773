// Before anything is drawn: slides instead of the page that is read without scripts.
"use strict";

(() => {
  document.documentElement.classList.add("deck");
  document.getElementById("reveal").media = "all";
  const asked = new URLSearchParams(location.search);
  let theme = asked.get("theme");
  try {
    theme ??= localStorage.getItem("slides-theme");
  } catch {
    // a browser that keeps nothing
  }
  if (theme === "dark" && !asked.has("print-pdf")) document.documentElement.dataset.theme = "dark";
})();
