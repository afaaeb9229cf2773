() => {
  const FOLDS = "details:is(.choice, .hint, .solution, .wrong, .deeper)";
  const summaries = [...document.querySelectorAll(`${FOLDS} > summary`)];
  const heights = summaries.map(summary => summary.getBoundingClientRect().height);
  // A summary of no height is out of sight.
  const low = heights.filter(height => height && height < 44);

  const parts = [...document.querySelectorAll(`${FOLDS} > :not(summary)`)];
  const isOfShownFramework = part => part.closest(".framework")?.checkVisibility() ?? true;
  const hidden = parts.filter(part => !part.checkVisibility() && isOfShownFramework(part));
  return {
    low: low.map(height => `too low for a finger: ${height}`),
    hidden: hidden.map(part => `not printed: ${part.textContent}`),
  };
}
