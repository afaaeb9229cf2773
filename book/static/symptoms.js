// Symptom, cause, cure: the page shows the symptoms that hold the words in the search box.
// A message is mostly pasted whole, with names and numbers of the reader's own: if no symptom
// holds all words, those that hold most are shown.
"use strict";

(() => {
  const form = document.querySelector(".symptom-search");
  const box = form.querySelector("input");
  const count = form.querySelector('[role="status"]');
  const plain = (text) => text.toLowerCase().replace(/\s+/g, " ");

  const symptoms = [...document.querySelectorAll("section > h3")].map((heading) => {
    const section = heading.parentElement;
    return { section, text: plain(section.textContent) };
  });
  const groups = [...new Set(symptoms.map(({ section }) => section.parentElement))];
  const entries = [...document.querySelectorAll(".symptom-list li")];
  const target = (entry) => document.getElementById(entry.querySelector("a").hash.slice(1));

  // The words of a text; what begins with a digit is a number of the reader's.
  const wordsOf = (text) => [...new Set(plain(text).match(/[\p{L}_][\p{L}\p{N}_]*/gu) ?? [])];

  function matches(words) {
    const held = symptoms.map(({ text }) => words.filter((word) => text.includes(word)).length);
    const most = Math.max(...held);
    if (most < words.length / 2) return [];
    return symptoms.filter((_, i) => held[i] === most).map(({ section }) => section);
  }

  function show() {
    const words = wordsOf(box.value);
    const shown = new Set(matches(words));
    for (const { section } of symptoms) mark(section, shown.has(section));
    for (const group of groups) mark(group, [...group.children].some((part) => shown.has(part)));
    for (const entry of entries) {
      mark(entry, !target(entry).classList.contains("without-words"));
    }
    count.textContent = words.length ? said(words, [...shown]) : `${symptoms.length} symptoms`;
  }

  const mark = (element, holds) => element.classList.toggle("without-words", !holds);

  function said(words, shown) {
    if (!shown.length) {
      return "No symptom has these words. Try fewer: those of the message, without file names. " +
        "Or search the whole book.";
    }
    const all = symptoms.find(({ section }) => section === shown[0]).text;
    const whole = words.every((word) => all.includes(word));
    const number = `${shown.length} of ${symptoms.length} symptoms`;
    return whole ? number : `No symptom has all these words. ${number} have most of them`;
  }

  // A link to a symptom that is not shown shows all again.
  function reveal() {
    const place = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (place?.closest(".without-words")) {
      box.value = "";
      show();
      place.scrollIntoView();
    }
  }

  box.addEventListener("input", show);
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault(); // the button searches the book; Enter goes to the first match
    document.querySelector(".symptom-list li li:not(.without-words) a")?.focus();
  });
  addEventListener("hashchange", reveal);
  show(); // a browser that goes back keeps what was typed
})();
