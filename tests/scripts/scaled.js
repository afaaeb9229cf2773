([trainings, clusters]) => {
  const links = JSON.parse(document.getElementById("links").textContent);
  const one = (where, id) => links[where].find((link) => link.id === id);
  return trainings.map(([step, gradients, bucket]) =>
    clusters.map(([gpus, server, inside, between, cards]) => {
      const joined = { inside: one("inside", inside), between: one("between", between) };
      const cluster = { gpus, server, cards, ...joined };
      const training = { step, gradients, bucket };
      const least = scalingModel.leastEfficiency(training, cluster);
      return { ...scalingModel.stepOf(training, cluster), least };
    }));
}
