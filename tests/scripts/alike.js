() => {
  // Of names in code that look the same, three stand for all.
  const counts = {};
  for (const name of document.querySelectorAll("pre span[class]:not(:has(*))")) {
    const { color, fontWeight, backgroundColor } = getComputedStyle(name);
    const block = name.closest("pre").parentElement.className;
    const look = [name.className, color, fontWeight, backgroundColor, block].join();
    counts[look] = (counts[look] ?? 0) + 1;
    if (counts[look] > 3 && name.attributes.length === 1) name.replaceWith(name.textContent);
  }
  for (const code of document.querySelectorAll("pre")) code.normalize();

  // Parts of pictures have no text.
  const parts = document.querySelectorAll("svg[role=img] :is(path, rect)");
  for (const part of parts) part.remove();

  // Of a long table, eight rows stand for those that a reader cannot use.
  for (const row of document.querySelectorAll("tbody tr:nth-child(n + 9)"))
    if (!row.querySelector("[id], a, button")) row.remove();
}
