"""Simulated GPUs in TensorFlow, with no torch: names, where tensors are, what is refused."""

import sys

import tensorflow as tf

import cudasim

cudasim.tensorflow.enable(gpus=2)
assert "torch" not in sys.modules

# Names.
names = [device.name for device in tf.config.list_logical_devices()]
assert names == ["/device:CPU:0", "/device:GPU:0", "/device:GPU:1"]
_, second = tf.config.list_physical_devices("GPU")
assert second.name == "/physical_device:GPU:1"
tf.config.experimental.set_memory_growth(second, True)


# Places.
def ones_on(device):
    with tf.device(device):
        return tf.ones(3)


def place(tensor):
    return tensor.device.removeprefix("/job:localhost/replica:0/task:0/device:")


X = ones_on("GPU:0")
Y = ones_on("/gpu:1")
on_host = ones_on("CPU")
with tf.device("GPU:1"):
    weight = tf.Variable([1.0])
assert place(X) == "GPU:0"
assert place(Y) == "GPU:1"
assert place(on_host) == "CPU:0"
assert place(weight) == "GPU:1"

# It is the first GPU, unless another is named.
for tensor in (tf.constant(1.0), ones_on("GPU:7"), ones_on(None)):
    assert place(tensor) == "GPU:0"
for tensor in (X + Y, Y + Y, weight + 1):
    assert place(tensor) == "GPU:0"
with tf.device("GPU:1"):
    assert place(X + on_host) == "GPU:1"

# Functions that are traced.
traced = []


@tf.function
def function(x):
    with tf.device("GPU:1"):
        doubled = 2 * x
    traced.append(doubled.device)
    with tf.init_scope():
        traced.append(place(ones_on("CPU:0")))


function(X)
assert traced == ["/device:GPU:1", "CPU:0"]


@tf.function(jit_compile=True)
def compiled():
    return weight + 1


# Errors.
try:
    compiled()
except tf.errors.InvalidArgumentError as error:
    print(str(error).partition("located in ")[2].splitlines()[0])
cudasim.tensorflow.enable(gpus=2)  # a cell that runs again
try:
    cudasim.tensorflow.enable(gpus=3)
except RuntimeError as error:
    print(error)
