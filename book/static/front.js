// The clinic of the front page, one version of the script at a time: by its buttons, or by arrow
// keys on them. Only the timeline in sight is in the document.
"use strict";

(() => {
  document.documentElement.classList.add("with-steps"); // before the page is drawn

  function start(clinic) {
    const steps = [...clinic.querySelectorAll(".front-step")];
    const controls = clinic.querySelector(".front-controls");
    const numbers = [...controls.querySelectorAll("[data-step]")];
    const status = controls.querySelector(".front-status");
    const first = numbers.findIndex((button) => "first" in button.dataset);
    const timelines = steps.map((step) => {
      const template = step.querySelector("template");
      const timeline = (template?.content ?? step).querySelector(".timeline");
      (template ?? timeline)?.remove();
      return timeline;
    });
    let now = first;

    function show(wanted) {
      timelines[now]?.remove();
      now = (wanted + steps.length) % steps.length; // after the last comes the first
      steps.forEach((step, i) => step.classList.toggle("shown", i === now));
      numbers.forEach((button, i) =>
        i === now ? button.setAttribute("aria-current", "step") : button.removeAttribute("aria-current"),
      );
      if (!timelines[now]) return;
      steps[now].append(timelines[now]);
      timelines[now].dispatchEvent(new Event("timeline", { bubbles: true })); // for timeline.js
    }

    function go(wanted) {
      show(wanted);
      status.textContent = numbers[now].getAttribute("aria-label");
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
    show(first);
  }

  document.addEventListener("DOMContentLoaded", () =>
    document.querySelectorAll(".front-steps").forEach(start),
  );
})();
