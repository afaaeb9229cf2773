() => {
  const faults = [];
  const press = (key) => document.body.dispatchEvent(
    new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  const slides = document.querySelectorAll(".slide");
  for (let steps = 0; !slides[slides.length - 1].matches(".current") && steps < 999; steps++) {
    const slide = document.querySelector(".current");
    const { scrollHeight, clientHeight, scrollWidth, clientWidth } = slide;
    if (scrollHeight > clientHeight || scrollWidth > clientWidth) faults.push(slide.dataset.place);
    press(" ");
    if (!slide.matches(".current") && slide.querySelector(".covered:not([open])"))
      faults.push(`${slide.dataset.place} is left with its output covered`);
  }
  return [...faults, ...(slides[slides.length - 1].matches(".current") ? [] : ["no end"])];
}
