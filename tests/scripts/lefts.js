// Where each line that is drawn of an element's text begins, from the first to the last.
(element) => {
  const lefts = new Map();
  const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  while (texts.nextNode()) {
    const text = texts.currentNode;
    for (let place = 0; place < text.length; place++) {
      if (text.data[place] === " ") continue;
      range.setStart(text, place);
      range.setEnd(text, place + 1);
      const letter = range.getBoundingClientRect();
      const top = Math.round(letter.top);
      lefts.set(top, Math.min(letter.left, lefts.get(top) ?? Infinity));
    }
  }
  return [...lefts.values()];
}
