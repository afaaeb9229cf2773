// Symptoms, causes and fixes: the page shows the symptoms that hold what is in the search box, to the
// letter; or else all of its words. A message is mostly pasted whole, with names and numbers of
// the reader's own: if no symptom holds all words, those that hold most are shown. The operations
// of another page are searched likewise, and by what happens.
"use strict";

(() => {
  const form = document.querySelector(".symptom-search");
  const box = form.querySelector("input");
  const happens = form.querySelector("select"); // of operations alone
  const count = form.querySelector('[role="status"]');
  const { things } = form.dataset;
  const NONE =
    `None of the ${things} has these words. Take those of the message alone, without names of ` +
    "your own; or search the whole book.";
  const plain = (text) => text.toLowerCase().replace(/\s+/g, " ");

  const symptoms = [...document.querySelectorAll("section > h3")].map((heading) => {
    const section = heading.parentElement;
    return { section, text: plain(section.textContent) };
  });
  const groups = [...new Set(symptoms.map(({ section }) => section.parentElement))];
  const entries = [...document.querySelectorAll(".symptom-list :is(li, tbody tr)")];
  const target = (entry) => document.getElementById(entry.querySelector("a").hash.slice(1));
  const verbs = new Map(entries.map((entry) => [target(entry), entry.dataset.verbs?.split(" ")]));

  // The words of a text; what begins with a digit is a number of the reader's.
  const wordsOf = (text) => [...new Set(plain(text).match(/[\p{L}_][\p{L}\p{N}_]*/gu) ?? [])];

  // The symptoms that hold a text best, and whether they hold all of it.
  function search(text) {
    const words = wordsOf(text);
    const exact = symptoms.filter((each) => each.text.includes(plain(text).trim()));
    if (exact.length) return { found: exact, whole: true };
    const held = symptoms.map((each) => words.filter((word) => each.text.includes(word)).length);
    const most = Math.max(...held);
    if (!most || most < words.length / 2) return { found: [], whole: false };
    return { found: symptoms.filter((_, i) => held[i] === most), whole: most === words.length };
  }

  function show() {
    const { found: worded, whole } = search(box.value);
    const verb = happens?.value;
    const found = worded.filter(({ section }) => !verb || verbs.get(section).includes(verb));
    const sections = new Set(found.map(({ section }) => section));
    for (const { section } of symptoms) mark(section, sections.has(section));
    for (const group of groups) mark(group, [...group.children].some((each) => sections.has(each)));
    for (const entry of entries) {
      mark(entry, !target(entry).classList.contains("without-words"));
    }
    const number = `${found.length} of ${symptoms.length} ${things}`;
    if (found.length === symptoms.length) count.textContent = `${symptoms.length} ${things}`;
    else if (!worded.length) count.textContent = NONE;
    else count.textContent = whole ? number : `None has all these words. ${number} have most of them`;
  }

  const mark = (element, holds) => element.classList.toggle("without-words", !holds);

  // A link to a symptom that is not shown shows all again.
  function reveal() {
    const place = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (place?.closest(".without-words")) {
      box.value = "";
      if (happens) happens.value = "";
      show();
      place.scrollIntoView();
    }
  }

  form.addEventListener("input", show);
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault(); // the button searches the book; Enter goes to the first match
    document
      .querySelector(".symptom-list :is(li li, tbody tr:not(.group)):not(.without-words) a")
      ?.focus();
  });
  addEventListener("hashchange", reveal);
  show(); // a browser that goes back keeps what was typed
})();
