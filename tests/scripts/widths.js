styles => styles.map(style => {
  const box = document.createElement("span");
  box.style = `font: ${style}; position: absolute; white-space: pre; font-kerning: none`;
  box.textContent = "Every device: 0123 tensors";
  document.body.append(box);
  const { width } = box.getBoundingClientRect();
  box.remove();
  return width;
})
