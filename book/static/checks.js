// Checks: cells that assert what must be true. They are out of sight until a reader asks for them,
// which is kept. Without this script they are folds.
"use strict";

(() => {
  const KEY = "checks";
  const WANTED = "shown";
  const root = document.documentElement;
  root.classList.add("with-checks");

  let wanted = false;
  try {
    wanted = localStorage.getItem(KEY) === WANTED;
  } catch {
    // a browser that keeps nothing: the choice lasts as long as the page
  }
  root.classList.toggle("show-checks", wanted);

  function keep() {
    try {
      if (wanted) localStorage.setItem(KEY, WANTED);
      else localStorage.removeItem(KEY);
    } catch {
      // as above
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    const button = document.querySelector(".switch-checks");
    const checks = document.querySelectorAll("details.checks");

    function show() {
      root.classList.toggle("show-checks", wanted);
      button.setAttribute("aria-pressed", String(wanted));
      for (const check of checks) check.open = wanted;
    }

    button.addEventListener("click", () => {
      wanted = !wanted;
      keep();
      show();
    });
    show();
  });
})();
