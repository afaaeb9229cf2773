([cases, links]) => {
  const { cards } = JSON.parse(document.getElementById("sheets").textContent);
  const onCard = (work, sheet) => ({
    card: sheet.name,
    bounds: formulas.bounds(work, sheet),
    kernel: formulas.kernelSeconds(work, sheet),
    calls: links.map(link => formulas.predict(work, sheet, link)),
  });
  return cases.map(([operation, sizes, precision]) => {
    const work = formulas.costs[operation](sizes, precision);
    return { work, cards: cards.map(sheet => onCard(work, sheet)) };
  });
}
