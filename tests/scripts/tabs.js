() => [...document.querySelectorAll('.runner-outputs')].map(set => ({
  tabs: [...set.querySelectorAll('[role=tab]')].map(tab => ({
    runner: tab.dataset.runner,
    chosen: tab.getAttribute('aria-selected') === 'true',
    stop: tab.tabIndex === 0,
    seen: tab.checkVisibility(),
  })),
  panels: [...set.querySelectorAll('[role=tabpanel]')].map(panel => ({
    runner: panel.dataset.runner,
    seen: panel.checkVisibility(),
    named: panel.querySelector('.runner-name').checkVisibility(),
  })),
}))
