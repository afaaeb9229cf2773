() => {
  const PARTS = ".prediction, .prediction li, .prediction li > *, details.covered";
  const boxes = [...document.querySelectorAll(PARTS)];
  return boxes.map(box => Object.values(box.getBoundingClientRect().toJSON()));
}
