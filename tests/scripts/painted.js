async () => {
  const entries = type => new Promise(resolve => {
    new PerformanceObserver(list => resolve(list.getEntries())).observe({ type, buffered: true });
    setTimeout(() => resolve([]), 300);
  });
  const seen = (await entries("largest-contentful-paint"))
    .filter(entry => !entry.url && entry.element?.closest("article"))
    .map(entry => entry.startTime);
  const fonts = performance.getEntriesByType("resource")
    .filter(entry => /\/fonts\/.*woff2$/.test(entry.name)).map(entry => entry.responseEnd);
  const moves = (await entries("layout-shift")).map(entry => entry.value);
  return [Math.min(...seen), Math.min(...fonts), moves.reduce((sum, one) => sum + one, 0)];
}
