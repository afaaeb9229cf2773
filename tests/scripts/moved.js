([box, cells]) => {
  const { size, operation } = box.querySelector("form").elements;
  if (operation) operation.value = cells.shift();
  size.value = size.dataset.sizes.split(" ").indexOf(cells[0].replaceAll(",", ""));
  size.dispatchEvent(new Event("input", { bubbles: true }));
  return box.querySelector("output").textContent.replaceAll("\u00a0", " ");
}