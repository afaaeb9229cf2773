// Predictions: a choice, or a wish to see, uncovers the answer and what follows up to the next
// heading. What was chosen is kept while the window is open. The covers are <details>: without this script they open by hand.
"use strict";

(() => {
  const KEY = "predictions";
  const ASKED_TO_SEE = -1; // instead of the number of a choice
  document.documentElement.classList.add("with-predictions");

  // By page and cover: the number of the choice; by page: whether everything is shown.
  let kept = {};
  try {
    kept = JSON.parse(sessionStorage.getItem(KEY)) ?? {};
  } catch {
    // a browser that keeps nothing: choices last as long as the page
  }

  function keep(name, value) {
    if (value === undefined) delete kept[name];
    else kept[name] = value;
    try {
      sessionStorage.setItem(KEY, JSON.stringify(kept));
    } catch {
      // as above
    }
  }

  const page = location.pathname;
  const all = () => kept[page] === true;

  // A prediction: its buttons, the line that says what was chosen, and the cover.
  function prepare(cover) {
    const name = `${page}#${cover.id}`;
    const said = cover.previousElementSibling;
    const cell = said.previousElementSibling;
    const asked = cell.previousElementSibling;
    const buttons = [...asked.querySelectorAll("li")].map(asButton);
    const right = buttons[cover.dataset.right];
    if (buttons.length) {
      const list = asked.querySelector("ul");
      const question = asked.querySelector("p");
      question.id = `${cover.id}-asked`;
      list.setAttribute("role", "group");
      list.setAttribute("aria-labelledby", question.id);
      for (const item of list.children) item.setAttribute("role", "presentation");
    }

    function show() {
      const choice = kept[name];
      cover.open = all() || choice !== undefined;
      tell();
    }

    function tell() {
      const chosen = buttons[kept[name]];
      for (const button of buttons) {
        button.setAttribute("aria-pressed", String(button === chosen));
        button.setAttribute("aria-disabled", String(cover.open)); // who has seen cannot predict
      }
      right?.classList.toggle("right", cover.open);
      const verdicts = [tr("<strong>No.</strong> Right is:"), tr("<strong>Right:</strong>")];
      const verdict = right ? verdicts[Number(chosen === right)] : tr("You chose:");
      const line = chosen ? tr("{0} {1}", verdict, (right ?? chosen).innerHTML) : "";
      if (said.innerHTML !== line) said.innerHTML = line;
    }

    buttons.forEach((button, number) => {
      button.addEventListener("click", () => {
        if (cover.open) return;
        keep(name, number);
        show();
      });
    });
    // Also when the reader, a search or a link opens the cover.
    cover.addEventListener("toggle", () => {
      if (!cover.open) keep(name, undefined);
      else if (!all() && kept[name] === undefined) keep(name, ASKED_TO_SEE);
      tell();
    });
    return show;
  }

  // The text of a choice, as a button.
  function asButton(item) {
    const button = document.createElement("button");
    button.type = "button";
    const text = item.querySelector("p") ?? item;
    button.append(...text.childNodes);
    item.replaceChildren(button);
    return button;
  }

  document.addEventListener("DOMContentLoaded", () => {
    const shows = [...document.querySelectorAll("details.covered")].map(prepare);
    const everything = document.querySelector(".switch-answers");

    function showAll() {
      everything.setAttribute("aria-pressed", String(all()));
      for (const show of shows) show();
    }

    everything.addEventListener("click", () => {
      keep(page, all() ? undefined : true);
      showAll();
    });
    showAll();
  });
})();
