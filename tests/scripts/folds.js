() => {
  const folds = "details:is(.choice, .hint, .solution, .wrong, .deeper)";
  const all = part => [...document.querySelectorAll(`${folds} > ${part}`)];
  return [
    all("summary").map(box => box.getBoundingClientRect().height)
      .filter(height => height && height < 44)
      .map(height => `too low for a finger: ${height}`),
    all(":not(summary)").filter(part => !part.checkVisibility())
      .filter(part => part.closest(".framework")?.checkVisibility() ?? true)
      .map(part => `not printed: ${part.textContent}`),
  ];
}
