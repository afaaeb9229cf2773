length => {
  const lines = [...document.querySelectorAll("div.cell_input pre")];
  const line = lines.find(pre => pre.checkVisibility());
  line.textContent = "x".repeat(length);
  return line.scrollWidth <= line.clientWidth;
}
