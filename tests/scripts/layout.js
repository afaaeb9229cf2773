() => {
  const found = [], root = document.documentElement;
  const fault = (what, box) => found.push(`${what}: ${box.outerHTML.slice(0, 120)}`);
  const hides = side => /hidden|clip/.test(side);
  if (root.scrollWidth > root.clientWidth) found.push(`page: ${root.scrollWidth} wide`);
  for (const box of document.body.querySelectorAll("*")) {
    if (!box.checkVisibility()) continue;
    const style = getComputedStyle(box);
    if (box.clientWidth > 1 && box.clientHeight > 1) {
      const wide = box.scrollWidth > box.clientWidth + 1 && hides(style.overflowX);
      const high = box.scrollHeight > box.clientHeight + 1 && hides(style.overflowY);
      if ((wide || high) && box.innerText?.trim()) fault("cut off", box);
    }
    const words = [...box.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    const own = /^"Book (Text|Code)"/.test(style.fontFamily) || box.closest(".languages");
    if (words && !own) fault(style.fontFamily, box);
  }
  for (const code of document.querySelectorAll(".bd-article pre"))
    if (root.clientWidth < 640 && code.scrollWidth > code.clientWidth + 1) fault("code runs on", code);
  for (const image of document.images) {
    const [wide, high] = ["width", "height"].map(side => +image.getAttribute(side));
    const { width, height } = image.getBoundingClientRect();
    const own = image.naturalWidth / image.naturalHeight;
    if (image.complete && Math.abs(wide / high / own - 1) > 0.02)
      fault(`size ${wide} x ${high}, not its own`, image);
    if (height && Math.abs(width / height / (wide / high) - 1) > 0.05)
      fault(`out of shape, ${width} x ${height}`, image);
  }
  for (const drawing of document.querySelectorAll(".formula svg")) {
    const { width, height } = drawing.getBoundingClientRect();
    if (!(width && height) && !drawing.closest("details:not([open])"))
      fault("takes no room", drawing);
  }
  document.querySelectorAll(".math").forEach(box => fault("not drawn", box));
  return found;
}
