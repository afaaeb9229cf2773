() => {
  const control = document.activeElement;
  if (!control.closest(".prediction, .prediction-switch, details.covered")) return null;
  return [control.innerText.trim(), getComputedStyle(control).outlineStyle];
}
