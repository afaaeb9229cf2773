"""Rows of rows.yml in MXNet, with Gluon, as one small program each.

Two contexts of the CPU take the places of the GPUs: MXNet compares no more than the kind of a
device. Rows that need two kinds, or a GPU, are not here.
"""

import pickle

import mxnet
import numpy
from mxnet import autograd, context, gluon, np, npx
from mxnet.gluon import nn

npx.set_np()
VERSION = mxnet.__version__
FIRST, SECOND = mxnet.cpu(0), mxnet.cpu(1)
N = numpy.ones((2, 3), "float32")


def arrays():
    return np.ones((2, 3), ctx=FIRST), np.ones((2, 3), ctx=SECOND), None


def place(answer):
    return str(answer.ctx) if isinstance(answer, np.ndarray) else answer


def linear(device=SECOND):
    net = nn.Dense(1, in_units=3)
    net.initialize(ctx=device)
    return net


def new(X, Y, H):
    return np.ones(3)


def from_numpy(X, Y, H):
    return np.array(N)


def like(X, Y, H):
    return np.zeros_like(Y)


def of_shape(X, Y, H):
    return np.zeros(Y.shape)


def in_block(X, Y, H):
    with context.Context(SECOND):
        return np.ones(3)


def drawn(X, Y, H):
    return np.random.uniform(size=(3,), ctx=SECOND)


def moved_default(X, Y, H):
    with context.Context(SECOND):
        return X + 1


def number(X, Y, H):
    return Y[0, 0].item()


def to_numpy(X, Y, H):
    return type(Y.asnumpy()).__name__


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


def add_number(X, Y, H):
    return Y + 1.0


def add_numpy(X, Y, H):
    return Y + N


def numpy_add(X, Y, H):
    return N + Y


def add_new(X, Y, H):
    return Y + np.ones((2, 3))


def product(X, Y, H):
    return np.dot(X, Y.T)


def equal(X, Y, H):
    return X == Y


def in_place(X, Y, H):
    Y += X
    return Y


def chosen(X, Y, H):
    return np.where(X > 0, Y, np.zeros_like(Y))


def joined(X, Y, H):
    return np.concatenate([X, Y])


def part_written(X, Y, H):
    Y[0] = X[0]
    return Y


def copied(X, Y, H):
    return X.as_in_ctx(SECOND)


def copied_again(X, Y, H):
    return Y.as_in_ctx(SECOND) is Y


def network(X, Y, H):
    net = nn.Dense(1, in_units=3)
    net.initialize()
    return net.weight.data()


def network_there(X, Y, H):
    return linear()(Y)


def network_numpy_batch(X, Y, H):
    return linear()(N)


def gradient(X, Y, H):
    net = linear()
    with autograd.record():
        total = net(Y).sum()
    total.backward()
    return net.weight.grad()


def written_parameter(X, Y, H):
    net = linear()
    net.weight.set_data(X[:1])
    return net.weight.data()


def state_apart(X, Y, H):
    net = linear(FIRST)
    trainer = gluon.Trainer(net.collect_params(), "adam")
    with autograd.record():
        total = net(X).sum()
    total.backward()
    trainer.step(1)
    net.collect_params().reset_ctx(SECOND)
    with autograd.record():
        total = net(Y).sum()
    total.backward()
    trainer.step(1)
    return net.weight.data()
