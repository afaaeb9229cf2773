([trainings, clusters]) => {
  const links = JSON.parse(document.getElementById("links").textContent);
  const find = (where, id) => links[where].find(link => link.id === id);
  const scaled = ([step, gradients, bucket], [gpus, server, cards, inside, between]) => {
    const joined = { inside: find("inside", inside), between: find("between", between) };
    const cluster = { gpus, server, cards, ...joined };
    const training = { step, gradients, bucket };
    const least = scalingModel.leastEfficiency(training, cluster);
    return { ...scalingModel.stepOf(training, cluster), least };
  };
  return trainings.map(training => clusters.map(cluster => scaled(training, cluster)));
}
