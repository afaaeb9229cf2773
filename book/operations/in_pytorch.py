"""Each row of rows.yml in PyTorch, as one small program."""

import pickle

import numpy as np
import torch
from torch import nn

VERSION = torch.__version__
N = np.ones((2, 3), "float32")


def arrays():
    return torch.ones(2, 3, device="cuda:0"), torch.ones(2, 3, device="cuda:1"), torch.ones(2, 3)


def place(answer):
    return str(answer.device) if isinstance(answer, torch.Tensor) else answer


def linear():
    return nn.Linear(3, 1).to("cuda:1")


def new(X, Y, H):
    return torch.ones(3)


def from_numpy(X, Y, H):
    return torch.tensor(N)


def like(X, Y, H):
    return torch.zeros_like(Y)


def of_shape(X, Y, H):
    return torch.zeros(Y.shape)


def in_block(X, Y, H):
    with torch.device("cuda:1"):
        return torch.ones(3)


def drawn(X, Y, H):
    return torch.rand(3, device="cuda:1")


def missing(X, Y, H):
    return torch.ones(3, device="cuda:9")


def moved_default(X, Y, H):
    with torch.device("cuda:1"):
        return X + 1


def number(X, Y, H):
    return Y[0, 0].item()


def to_numpy(X, Y, H):
    return type(np.asarray(Y)).__name__


def to_list(X, Y, H):
    return Y.tolist()[0]


def printed(X, Y, H):
    return str(Y).splitlines()[0]


def truth(X, Y, H):
    return True if Y.sum() > 0 else False


def pickled(X, Y, H):
    return pickle.loads(pickle.dumps(Y))


def add_gpus(X, Y, H):
    return X + Y


def add_host(X, Y, H):
    return Y + H


def add_number(X, Y, H):
    return Y + 1.0


def add_host_scalar(X, Y, H):
    return Y + torch.tensor(1.0)


def add_numpy(X, Y, H):
    return Y + N


def numpy_add(X, Y, H):
    return N + Y


def add_new(X, Y, H):
    return Y + torch.ones(2, 3)


def product(X, Y, H):
    return X @ Y.T


def equal(X, Y, H):
    return X == Y


def in_place(X, Y, H):
    Y += X
    return Y


def chosen(X, Y, H):
    return torch.where(X > 0, Y, 0)


def indexed(X, Y, H):
    return Y[torch.tensor([0, 1])]


def joined(X, Y, H):
    return torch.cat([X, Y])


def part_written(X, Y, H):
    Y[0] = X[0]
    return Y


def copied(X, Y, H):
    return X.to("cuda:1")


def copied_again(X, Y, H):
    return Y.to("cuda:1") is Y


def copied_home(X, Y, H):
    return Y.cpu()


def copied_missing(X, Y, H):
    return X.to("cuda:9")


def network(X, Y, H):
    return nn.Linear(3, 1).weight


def network_there(X, Y, H):
    return linear()(Y)


def network_host_batch(X, Y, H):
    return linear()(H)


def network_numpy_batch(X, Y, H):
    return linear()(N)


def labels_host(X, Y, H):
    return nn.functional.mse_loss(Y, H)


def gradient(X, Y, H):
    net = linear()
    net(Y).sum().backward()
    return net.weight.grad


def written_parameter(X, Y, H):
    net = linear()
    with torch.no_grad():
        net.weight.copy_(X[:1])
    return net.weight


def state_apart(X, Y, H):
    net = nn.Linear(3, 1).to("cuda:0")
    optimizer = torch.optim.Adam(net.parameters())
    net(X).sum().backward()
    optimizer.step()
    net.to("cuda:1")
    net(Y).sum().backward()
    optimizer.step()
    return net.weight
