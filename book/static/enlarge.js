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
    const name = `Enlarge: ${label}`;
    // A drawing has letters of its own, which the name of a button would have to repeat.
    const said = picture.localName === "img" ? { role: "button", "aria-label": name } : {};
    for (const [key, value] of Object.entries(said)) picture.setAttribute(key, value);
    picture.setAttribute("tabindex", 0);
    const show = (event) => {
      if (event.key && event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      const copy = picture.cloneNode(true);
      copy.setAttribute("role", "img");
      copy.setAttribute("aria-label", label);
      copy.removeAttribute("tabindex");
      dialog.setAttribute("aria-label", label);
      dialog.append(copy);
      dialog.showModal();
    };
    picture.addEventListener("click", show);
    picture.addEventListener("keydown", show);
  }
})();
