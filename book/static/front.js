// The picture of the front page, one step at a time: by its buttons, or by arrow keys on them.
"use strict";

(() => {
  document.documentElement.classList.add("with-steps"); // before the page is drawn

  function start(picture) {
    const steps = [...picture.querySelectorAll(".front-step")];
    const controls = picture.querySelector(".front-controls");
    const numbers = controls.querySelectorAll("[data-step]");
    const status = controls.querySelector(".front-status");
    let now = 0;

    function show(wanted) {
      now = (wanted + steps.length) % steps.length; // after the last comes the first
      steps.forEach((step, i) => step.classList.toggle("shown", i === now));
      numbers.forEach((button, i) =>
        i === now ? button.setAttribute("aria-current", "step") : button.removeAttribute("aria-current"),
      );
    }

    function go(wanted) {
      show(wanted);
      picture.classList.add("started"); // from here on, what is new may move
      status.textContent = `Step ${now + 1} of ${steps.length}: ${steps[now].dataset.title}`;
    }

    controls.addEventListener("click", (event) => {
      const { step, by } = event.target.closest("button")?.dataset ?? {};
      if (step !== undefined) go(Number(step));
      if (by !== undefined) go(now + Number(by));
    });
    controls.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!by || event.ctrlKey || event.altKey || event.metaKey) return;
      go(now + by);
      event.preventDefault();
    });
    show(0);
  }

  document.addEventListener("DOMContentLoaded", () =>
    document.querySelectorAll(".front-steps").forEach(start),
  );
})();
