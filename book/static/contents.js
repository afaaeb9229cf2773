// The contents beside a page mark the section that is being read, and those around it.
"use strict";

{
  const links = [...document.querySelectorAll(".page-toc a")];
  const sections = links.map((link) => document.getElementById(decodeURI(link.hash.slice(1))));
  const seen = new Set();
  const mark = (changes) => {
    for (const { target, isIntersecting } of changes) seen[isIntersecting ? "add" : "delete"](target);
    const read = sections.findLast((section) => seen.has(section));
    links.forEach((link, i) => link.classList.toggle("active", !!read && sections[i].contains(read)));
  };
  const observer = new IntersectionObserver(mark, { rootMargin: "0px 0px -60%" });
  for (const section of sections) observer.observe(section);
}
