() => [...document.querySelectorAll(
  ".prediction, .prediction li, .prediction li > *, details.covered")].map(
  box => Object.values(box.getBoundingClientRect().toJSON()))
