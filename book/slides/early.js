// Before anything is drawn: slides instead of the page that is read without scripts.
"use strict";

(() => {
  const asked = new URLSearchParams(location.search);
  document.documentElement.classList.add("deck");
  document.documentElement.classList.toggle("receiver", asked.has("receiver")); // speaker's view
  // On paper reveal.js has a say only where it was asked to lay the pages out.
  document.getElementById("reveal").media = asked.has("print-pdf") ? "all" : "screen";
  let theme = asked.get("theme");
  try {
    theme ??= localStorage.getItem("slides-theme");
  } catch {
    // a browser that keeps nothing
  }
  if (theme === "dark" && !asked.has("print-pdf")) document.documentElement.dataset.theme = "dark";
})();
