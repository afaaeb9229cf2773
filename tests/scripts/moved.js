([box, cells]) => {
  const { size, operation } = box.querySelector("form").elements;
  const row = [...cells];
  if (operation) operation.value = row.shift();
  const sizes = size.dataset.sizes.split(" ");
  size.value = sizes.indexOf(row[0].replaceAll(",", ""));
  size.dispatchEvent(new Event("input", { bubbles: true }));
  return box.querySelector("output").textContent.replaceAll("\u00a0", " ");
}
