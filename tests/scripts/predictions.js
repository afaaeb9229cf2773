() => {
  const all = selector => [...document.querySelectorAll(selector)];
  const isOutputSeen = cover =>
    [...cover.querySelectorAll(".cell_output")].some(output => output.checkVisibility());
  const pressed = all(".prediction button[aria-pressed=true]");
  const showAll = document.querySelector(".switch-answers");
  return {
    all: showAll?.getAttribute("aria-pressed"),
    outputs: all("details.covered").map(isOutputSeen),
    answers: all(".answer").map(answer => answer.checkVisibility()),
    pressed: pressed.map(button => button.textContent),
    verdicts: all(".chosen").map(verdict => verdict.textContent),
  };
}
