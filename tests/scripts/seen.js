() => ["section > h3", ".symptom-list li li a"].map(
  place => [...document.querySelectorAll(place)]
    .filter(title => title.checkVisibility()).map(title => title.textContent.replace(/#$/, "")))
