// Figures and plots: a tap, Enter or Space shows one as large as the window, Escape closes it.
"use strict";

(() => {
  const dialog = document.createElement("dialog");
  dialog.className = "enlarged";
  dialog.innerHTML = '<form method="dialog"><button></button></form>';
  dialog.querySelector("button").textContent = tr("Close");
  dialog.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => dialog.lastElementChild.remove());
  document.body.append(dialog);

  for (const picture of document.querySelectorAll(".bd-article :is(svg.figure, img)")) {
    if (picture.closest("a")) continue;
    const label = picture.getAttribute("alt") ?? picture.getAttribute("aria-label");
    // The name of a drawing as a button would have to repeat its letters: one lies over it.
    const over = picture.localName !== "img";
    const button = over ? document.createElement("button") : picture;
    if (over) {
      const frame = document.createElement("span");
      frame.className = "enlarge";
      picture.replaceWith(frame);
      frame.append(picture, button);
    } else {
      button.setAttribute("role", "button");
      button.setAttribute("tabindex", 0);
    }
    button.setAttribute("aria-label", tr("Enlarge: {0}", label));
    const show = (event) => {
      if (event.key && event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      const copy = picture.cloneNode(true);
      copy.setAttribute("role", "img");
      copy.setAttribute("aria-label", label);
      copy.removeAttribute("tabindex");
      copy.style.filter = getComputedStyle(picture).filter; // a plot is dark on a dark page
      dialog.setAttribute("aria-label", label);
      dialog.append(copy);
      dialog.showModal();
    };
    button.addEventListener("click", show);
    button.addEventListener("keydown", show);
  }
})();
