() => {
  const seen = selector => {
    const titles = [...document.querySelectorAll(selector)].filter(title => title.checkVisibility());
    return titles.map(title => title.textContent.replace(/#$/, ""));
  };
  return [seen("section > h3"), seen(".symptom-list li li a")];
}
