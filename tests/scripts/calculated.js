([works, links]) => {
  const { cards } = JSON.parse(document.getElementById("sheets").textContent);
  return works.map(([operation, sizes, precision]) => {
    const work = formulas.costs[operation](sizes, precision);
    return [work, cards.map(sheet => [sheet.name, [
      ...formulas.bounds(work, sheet),
      formulas.kernelSeconds(work, sheet),
    ], links.map(link => formulas.predict(work, sheet, link))])];
  });
}
