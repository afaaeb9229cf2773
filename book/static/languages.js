// The links to a page in other languages lead to the place that is in sight, in the framework and
// on the machine that were chosen.
"use strict";

for (const link of document.querySelectorAll(".languages a")) {
  link.addEventListener("click", () => {
    const sections = [...document.querySelectorAll(".bd-article section[id]")];
    const above = sections.filter(
      (section) => section.checkVisibility() && section.getBoundingClientRect().top < innerHeight / 3,
    );
    link.search = location.search;
    link.hash = scrollY > 0 && above.length > 1 ? above.at(-1).id : "";
  });
}
