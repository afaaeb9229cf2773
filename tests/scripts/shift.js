() => new Promise(resolve => {
  let sum = 0;
  const observer = new PerformanceObserver(list => {
    for (const shift of list.getEntries()) sum += shift.value;
  });
  observer.observe({ type: "layout-shift", buffered: true });
  setTimeout(() => resolve(sum), 500);
})
