() => {
  const all = [...document.querySelectorAll("details.choice > summary")];
  const at = document.activeElement, place = all.indexOf(at);
  const seen = () => place >= 0 &&
    [...at.parentElement.querySelectorAll(":scope > p")].some(p => p.checkVisibility());
  return [place, seen()];
}
