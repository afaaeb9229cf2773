() => {
  const control = document.activeElement;
  if (!control.closest(".prediction, .switches, details.covered")) return null;
  return [control.innerText.trim(), getComputedStyle(control).outlineStyle];
}
