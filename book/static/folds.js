// Deeper: a section that a link or a search leads into, or to, is opened.
"use strict";

(() => {
  function open(box) {
    const own = box?.querySelector(":scope > details.deeper");
    for (let at = own ?? box; at; at = at.parentElement)
      if (at.matches("details.deeper")) at.open = true;
  }
  const target = (hash) => document.getElementById(decodeURIComponent(hash.slice(1)));

  document.addEventListener("DOMContentLoaded", () => {
    open(target(location.hash));
    // Words that were searched: Sphinx's script marks them after as long.
    setTimeout(() => document.querySelectorAll(".deeper .highlighted").forEach(open), 10);
  });
  window.addEventListener("hashchange", () => open(target(location.hash)));
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href]");
    if (link?.hash && link.pathname === location.pathname) open(target(link.hash));
  });
})();
