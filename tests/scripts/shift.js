() => new Promise(resolve => {
  let sum = 0;
  new PerformanceObserver(list => list.getEntries().forEach(one => { sum += one.value; }))
    .observe({type: "layout-shift", buffered: true});
  setTimeout(() => resolve(sum), 500);
})
