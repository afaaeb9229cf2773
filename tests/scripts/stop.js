() => {
  const at = document.activeElement;
  return at.closest(".prediction, .prediction-switch, details.covered")
    ? [at.innerText.trim(), getComputedStyle(at).outlineStyle] : null;
}
