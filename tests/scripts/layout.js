() => {
  const faults = [];
  const report = (what, box) => faults.push(`${what}: ${box.outerHTML.slice(0, 120)}`);
  const page = document.documentElement;
  const isHidden = overflow => /hidden|clip/.test(overflow);

  function checkSize(box, style) {
    if (box.clientWidth <= 1 || box.clientHeight <= 1) return;
    const isTooWide = box.scrollWidth > box.clientWidth + 1 && isHidden(style.overflowX);
    const isTooHigh = box.scrollHeight > box.clientHeight + 1 && isHidden(style.overflowY);
    if ((isTooWide || isTooHigh) && box.innerText?.trim()) report("cut off", box);
  }

  function checkFont(box, style) {
    const texts = [...box.childNodes].filter(node => node.nodeType === Node.TEXT_NODE);
    if (!texts.some(text => text.data.trim())) return;
    // The names of languages are in fonts of the reader's system.
    const isOurs = /^"Book (Text|Code)"/.test(style.fontFamily) || box.closest(".languages");
    if (!isOurs) report(style.fontFamily, box);
  }

  function checkImage(image) {
    const [givenWidth, givenHeight] = ["width", "height"].map(side => +image.getAttribute(side));
    const givenShape = givenWidth / givenHeight;
    const ownShape = image.naturalWidth / image.naturalHeight;
    if (image.complete && Math.abs(givenShape / ownShape - 1) > 0.02)
      report(`size ${givenWidth} x ${givenHeight}, not its own`, image);
    const { width, height } = image.getBoundingClientRect();
    if (height && Math.abs(width / height / givenShape - 1) > 0.05)
      report(`out of shape, ${width} x ${height}`, image);
  }

  if (page.scrollWidth > page.clientWidth) faults.push(`page: ${page.scrollWidth} wide`);
  for (const box of document.body.querySelectorAll("*")) {
    if (!box.checkVisibility()) continue;
    const style = getComputedStyle(box);
    checkSize(box, style);
    checkFont(box, style);
  }
  for (const code of document.querySelectorAll(".bd-article pre"))
    if (page.clientWidth < 640 && code.scrollWidth > code.clientWidth + 1)
      report("code runs on", code);
  for (const image of document.images) checkImage(image);
  for (const drawing of document.querySelectorAll(".formula svg")) {
    const { width, height } = drawing.getBoundingClientRect();
    if (!(width && height) && !drawing.closest("details:not([open])"))
      report("takes no room", drawing);
  }
  for (const formula of document.querySelectorAll(".math")) report("not drawn", formula);
  return faults;
}
