() => ({
  all: document.querySelector('.prediction-switch button')?.getAttribute('aria-pressed'),
  shown: [...document.querySelectorAll('details.covered')].map(cover => [
    ...cover.querySelectorAll('.cell_output')].some(printed => printed.checkVisibility())),
  told: [...document.querySelectorAll('.answer')].map(below => below.checkVisibility()),
  pressed: [...document.querySelectorAll('.prediction button[aria-pressed=true]')].map(
    button => button.textContent),
  said: [...document.querySelectorAll('.chosen')].map(line => line.textContent),
})
