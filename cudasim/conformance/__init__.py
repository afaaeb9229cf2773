"""PyTorch's own tests of CUDA, unmodified, run under `cudasim`."""
