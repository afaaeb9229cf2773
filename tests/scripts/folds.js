() => {
  const FOLDS = "details:is(.choice, .hint, .solution, .wrong, .deeper)";
  const summaries = [...document.querySelectorAll(`${FOLDS} > summary`)];
  const heights = summaries.map(summary => summary.getBoundingClientRect().height);
  // A summary of no height is out of sight.
  const low = heights.filter(height => height && height < 44);

  const parts = [...document.querySelectorAll(`${FOLDS} > :not(summary)`)];
  const isOfShownFramework = part => part.closest(".framework")?.checkVisibility() ?? true;
  // Checks are shown to readers who ask for them.
  const isWanted = part => isOfShownFramework(part) && !part.matches(".checks");
  const hidden = parts.filter(part => !part.checkVisibility() && isWanted(part));
  return {
    low: low.map(height => `too low for a finger: ${height}`),
    hidden: hidden.map(part => `not printed: ${part.textContent}`),
  };
}
