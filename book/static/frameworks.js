// The framework that a page is read in: from its address, or as it was chosen last. Loaded before
// the page is drawn, so that the others never flash up.
"use strict";

(() => {
  const KEY = "framework";
  const page = document.documentElement;
  const asked = new URLSearchParams(location.search);

  function remembered() {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // a browser that keeps nothing
    }
  }

  page.dataset.framework = asked.get(KEY) ?? remembered() ?? "pytorch";

  function putIntoAddress(key, value) {
    asked.set(key, value);
    history.replaceState(null, "", `?${asked}${location.hash}`);
  }

  document.addEventListener("DOMContentLoaded", () => {
    const radios = [...document.querySelectorAll(".frameworks input")];
    const names = radios.map((radio) => radio.value);
    const tabs = [...document.querySelectorAll('[role="tab"]')];
    const download = document.querySelector('.bd-header-article a[href$=".ipynb"]');
    const other = new RegExp(`(-(${names.join("|")}))?\\.ipynb$`);
    const known = { framework: names, machine: tabs.map((tab) => tab.dataset.runner) };

    // What is shown changes above and below; what all frameworks share stays where it is.
    function show(name) {
      const common = [...document.querySelectorAll(".bd-article :is(p, h2, h3)")].find(
        (text) => !text.closest(".framework") && text.getBoundingClientRect().top > 0,
      );
      const before = common?.getBoundingClientRect().top;
      page.dataset.framework = name;
      radios.forEach((radio) => (radio.checked = radio.value === name));
      for (const link of document.querySelectorAll(".page-toc a")) {
        const section = document.getElementById(decodeURIComponent(link.hash.slice(1)));
        link.hidden = section !== null && !section.checkVisibility();
      }
      const end = name === names[0] ? ".ipynb" : `-${name}.ipynb`;
      if (download) download.href = download.href.replace(other, end);
      if (scrollY) scrollBy({ top: common?.getBoundingClientRect().top - before, behavior: "instant" });
    }

    const faults = Object.entries(known).filter(
      ([key, values]) => asked.has(key) && !values.includes(asked.get(key)),
    );
    document.querySelector(".frameworks-fault").textContent = faults
      .map(([key, values]) => {
        const choices = [...new Set(values)].join(", ");
        return tr("This page has no {0} '{1}'. It has {2}.", key, asked.get(key), choices);
      })
      .join(" ");
    const led = () => document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const ledTo = () => names.find((name) => led()?.closest(`.framework.${name}`));
    show(ledTo() ?? names.find((name) => name === page.dataset.framework) ?? names[0]);
    addEventListener("hashchange", () => {
      const framework = ledTo();
      if (!framework) return;
      show(framework);
      led().scrollIntoView();
    });

    document.querySelector(".frameworks").addEventListener("change", (event) => {
      show(event.target.value);
      putIntoAddress(KEY, event.target.value);
      try {
        localStorage.setItem(KEY, event.target.value);
      } catch {
        // as above
      }
    });
    document.addEventListener("machine", (event) => putIntoAddress("machine", event.detail));
    window.addEventListener("storage", (event) => {
      if (event.key === KEY && names.includes(event.newValue)) show(event.newValue);
    });
  });
})();
