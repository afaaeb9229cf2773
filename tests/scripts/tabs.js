() => {
  const aboutTab = tab => ({
    runner: tab.dataset.runner,
    chosen: tab.getAttribute("aria-selected") === "true",
    stop: tab.tabIndex === 0,
    seen: tab.checkVisibility(),
  });
  const aboutPanel = panel => ({
    runner: panel.dataset.runner,
    seen: panel.checkVisibility(),
    named: panel.querySelector(".runner-name").checkVisibility(),
  });
  return [...document.querySelectorAll(".runner-outputs")].map(outputs => ({
    tabs: [...outputs.querySelectorAll("[role=tab]")].map(aboutTab),
    panels: [...outputs.querySelectorAll("[role=tabpanel]")].map(aboutPanel),
  }));
}
