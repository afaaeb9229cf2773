() => {
  const faults = [];
  const slides = [...document.querySelectorAll(".slide")];
  const isAtEnd = () => slides.at(-1).matches(".current");
  const step = () => document.body.dispatchEvent(
    new KeyboardEvent("keydown", { key: " ", bubbles: true, cancelable: true }));

  for (let steps = 0; !isAtEnd() && steps < 999; steps++) {
    const slide = document.querySelector(".current");
    const isTooHigh = slide.scrollHeight > slide.clientHeight;
    const isTooWide = slide.scrollWidth > slide.clientWidth;
    if (isTooHigh || isTooWide) faults.push(`${slide.dataset.place} is too large`);
    step();
    const isLeft = !slide.matches(".current");
    if (isLeft && slide.querySelector(".covered:not([open])"))
      faults.push(`${slide.dataset.place} is left with its output covered`);
  }
  if (!isAtEnd()) faults.push("no end");
  return faults;
}
