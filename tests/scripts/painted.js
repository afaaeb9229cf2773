async () => {
  const entries = type => new Promise(resolve => {
    const observer = new PerformanceObserver(list => resolve(list.getEntries()));
    observer.observe({ type, buffered: true });
    setTimeout(() => resolve([]), 300);
  });
  const isText = entry => !entry.url && entry.element?.closest("article");
  const paints = (await entries("largest-contentful-paint")).filter(isText);
  const files = performance.getEntriesByType("resource");
  const fonts = files.filter(file => /\/fonts\/.*woff2$/.test(file.name));
  const shifts = await entries("layout-shift");
  return {
    textSeen: Math.min(...paints.map(paint => paint.startTime)),
    fontsCame: Math.min(...fonts.map(font => font.responseEnd)),
    shift: shifts.reduce((sum, shift) => sum + shift.value, 0),
  };
}
