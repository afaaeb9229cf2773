"""Each row of rows.yml in TensorFlow, with Keras, as one small program."""

import pickle

import keras
import numpy as np
import tensorflow as tf

VERSION = tf.__version__
FIRST, SECOND, HOST = "GPU:0", "GPU:1", "CPU:0"
N = np.ones((2, 3), "float32")


def ones(device):
    with tf.device(device):
        return tf.ones((2, 3))


def arrays():
    return ones(FIRST), ones(SECOND), ones(HOST)


def place(answer):
    if isinstance(answer, keras.Variable):
        answer = answer.value
    if isinstance(answer, tf.Tensor | tf.Variable):
        return answer.device.rpartition("device:")[2]
    return answer


def linear(device=SECOND):
    with tf.device(device):
        return keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])


def new(X, Y, H):
    return tf.ones(3)


def from_numpy(X, Y, H):
    return tf.constant(N)


def like(X, Y, H):
    return tf.zeros_like(Y)


def of_shape(X, Y, H):
    return tf.zeros(Y.shape)


def in_block(X, Y, H):
    with tf.device(SECOND):
        return tf.ones(3)


def drawn(X, Y, H):
    with tf.device(SECOND):
        return tf.random.uniform((3,))


def missing(X, Y, H):
    with tf.device("GPU:9"):
        return tf.ones(3)


def moved_default(X, Y, H):
    with tf.device(SECOND):
        return X + 1


def number(X, Y, H):
    return float(Y[0, 0])


def to_numpy(X, Y, H):
    return type(np.asarray(Y)).__name__


def to_list(X, Y, H):
    return Y.numpy().tolist()[0]


def printed(X, Y, H):
    return str(Y).splitlines()[0]


def truth(X, Y, H):
    return True if tf.reduce_sum(Y) > 0 else False


def pickled(X, Y, H):
    return pickle.loads(pickle.dumps(Y))


def add_gpus(X, Y, H):
    return X + Y


def add_host(X, Y, H):
    return Y + H


def add_number(X, Y, H):
    return Y + 1.0


def add_host_scalar(X, Y, H):
    with tf.device(HOST):
        scalar = tf.constant(1.0)
    return Y + scalar


def add_numpy(X, Y, H):
    return Y + N


def numpy_add(X, Y, H):
    return N + Y


def add_new(X, Y, H):
    return Y + tf.ones((2, 3))


def product(X, Y, H):
    return X @ tf.transpose(Y)


def equal(X, Y, H):
    return X == Y


def in_place(X, Y, H):
    Y += X
    return Y


def chosen(X, Y, H):
    return tf.where(X > 0, Y, 0)


def indexed(X, Y, H):
    with tf.device(HOST):
        rows = tf.constant([0, 1])
    return tf.gather(Y, rows)


def joined(X, Y, H):
    return tf.concat([X, Y], axis=0)


def part_written(X, Y, H):
    return tf.tensor_scatter_nd_update(Y, [[0]], X[:1])


def copied(X, Y, H):
    with tf.device(SECOND):
        return tf.identity(X)


def copied_again(X, Y, H):
    with tf.device(SECOND):
        return tf.identity(Y) is Y


def copied_home(X, Y, H):
    with tf.device(HOST):
        return tf.identity(Y)


def copied_missing(X, Y, H):
    with tf.device("GPU:9"):
        return tf.identity(X)


def network(X, Y, H):
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)]).weights[0]


def network_there(X, Y, H):
    return linear()(Y)


def network_host_batch(X, Y, H):
    return linear()(H)


def network_numpy_batch(X, Y, H):
    return linear()(N)


def labels_host(X, Y, H):
    return keras.losses.MeanSquaredError()(H, Y)


def gradient(X, Y, H):
    net = linear()
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(net(Y))
    return tape.gradient(total, net.trainable_variables)[0]


def written_parameter(X, Y, H):
    weight = linear().weights[0]
    weight.assign(tf.transpose(X[:1]))
    return weight


def state_apart(X, Y, H):
    there = linear().trainable_variables
    optimizer = keras.optimizers.Adam()
    with tf.device(FIRST):
        optimizer.build(there)
    optimizer.apply([tf.ones_like(each) for each in there], there)
    return there[0]
