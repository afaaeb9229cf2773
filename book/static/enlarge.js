// Figures and plots: a tap, Enter or Space shows one as large as the window, Escape closes it.
"use strict";

(() => {
  const dialog = document.createElement("dialog");
  dialog.className = "enlarged";
  dialog.innerHTML = '<form method="dialog"><button>Close</button></form>';
  dialog.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => dialog.lastElementChild.remove());
  document.body.append(dialog);

  for (const picture of document.querySelectorAll(".bd-article :is(svg.figure, img)")) {
    if (picture.closest("a")) continue;
    const label = picture.getAttribute("alt") ?? picture.getAttribute("aria-label");
    // A drawing stands in a button of its own: as the button, it would be named by its letters.
    const button = picture.localName === "img" ? picture : document.createElement("span");
    if (button !== picture) {
      picture.replaceWith(button);
      button.append(picture);
    }
    button.setAttribute("role", "button");
    button.setAttribute("tabindex", 0);
    button.setAttribute("aria-label", `Enlarge: ${label}`);
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
