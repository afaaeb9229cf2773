() => {
  const times = {};
  for (const name of document.querySelectorAll("pre span[class]:not(:has(*))")) {
    const { color, fontWeight, backgroundColor } = getComputedStyle(name);
    const block = name.closest("pre").parentElement.className;
    const look = [name.className, color, fontWeight, backgroundColor, block].join();
    times[look] = (times[look] ?? 0) + 1;
    if (times[look] > 3 && name.attributes.length === 1) name.replaceWith(name.textContent);
  }
  document.querySelectorAll("pre").forEach(code => code.normalize());
  document.querySelectorAll("svg[role=img] :is(path, rect)").forEach(part => part.remove());
  for (const row of document.querySelectorAll("tbody tr:nth-child(n + 9)"))
    if (!row.querySelector("[id], a, button")) row.remove();
}
