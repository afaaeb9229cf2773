"""Each row of rows.yml in JAX, with Flax and Optax, as one small program."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

VERSION = jax.__version__
FIRST, SECOND = jax.devices("gpu")
HOST = jax.devices("cpu")[0]
N = np.ones((2, 3), "float32")


def arrays():
    return [jnp.ones((2, 3), device=device) for device in (FIRST, SECOND, HOST)]


def place(answer):
    return str(answer.device) if isinstance(answer, jax.Array) else answer


def linear(device=SECOND):
    net = nnx.Linear(3, 1, rngs=nnx.Rngs(0))
    nnx.update(net, jax.device_put(nnx.state(net), device))
    return net


def error(net, x):
    return net(x).mean()


def new(X, Y, H):
    return jnp.ones(3)


def from_numpy(X, Y, H):
    return jnp.array(N)


def like(X, Y, H):
    return jnp.zeros_like(Y)


def of_shape(X, Y, H):
    return jnp.zeros(Y.shape)


def in_block(X, Y, H):
    with jax.default_device(SECOND):
        return jnp.ones(3)


def drawn(X, Y, H):
    return jax.random.uniform(jax.device_put(jax.random.key(0), SECOND), (3,))


def missing(X, Y, H):
    return jnp.ones(3, device=jax.devices("gpu")[9])


def moved_default(X, Y, H):
    with jax.default_device(SECOND):
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
    return Y + jax.device_put(1.0, HOST)


def add_numpy(X, Y, H):
    return Y + N


def numpy_add(X, Y, H):
    return N + Y


def add_new(X, Y, H):
    return Y + jnp.ones((2, 3))


def product(X, Y, H):
    return X @ Y.T


def equal(X, Y, H):
    return X == Y


def chosen(X, Y, H):
    return jnp.where(X > 0, Y, 0)


def in_place(X, Y, H):
    Y += X
    return Y


def indexed(X, Y, H):
    return Y[jax.device_put(np.array([0, 1]), HOST)]


def joined(X, Y, H):
    return jnp.concatenate([X, Y])


def part_written(X, Y, H):
    return Y.at[0].set(X[0])


def copied(X, Y, H):
    return jax.device_put(X, SECOND)


def copied_again(X, Y, H):
    return jax.device_put(Y, SECOND) is Y


def copied_home(X, Y, H):
    return jax.device_put(Y, HOST)


def copied_missing(X, Y, H):
    return jax.device_put(X, jax.devices("gpu")[9])


def network(X, Y, H):
    return nnx.Linear(3, 1, rngs=nnx.Rngs(0)).kernel[...]


def network_there(X, Y, H):
    return linear()(Y)


def network_host_batch(X, Y, H):
    return linear()(H)


def network_numpy_batch(X, Y, H):
    return linear()(N)


def labels_host(X, Y, H):
    return optax.squared_error(Y, H).mean()


def gradient(X, Y, H):
    return nnx.grad(error)(linear(), Y).kernel[...]


def written_parameter(X, Y, H):
    net = linear()
    net.kernel[...] = X[:1].T
    return net.kernel[...]


def state_apart(X, Y, H):
    net = linear(FIRST)
    optimizer = nnx.Optimizer(net, optax.adam(0.1), wrt=nnx.Param)
    optimizer.update(net, nnx.grad(error)(net, X))
    nnx.update(net, jax.device_put(nnx.state(net), SECOND))
    optimizer.update(net, nnx.grad(error)(net, Y))
    return net.kernel[...]
