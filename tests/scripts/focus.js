() => {
  const control = document.activeElement;
  if (control === document.body || control.dataset.seen) return null;
  control.dataset.seen = "yes";
  const look = () => {
    const { outline, boxShadow, backgroundColor } = getComputedStyle(control);
    return outline + boxShadow + backgroundColor;
  };
  const focused = look();
  control.blur();
  const plain = look();
  control.focus();
  return { isMarked: focused !== plain, html: control.outerHTML.slice(0, 120) };
}
