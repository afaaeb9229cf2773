"""Measure a GPU: what its card file says, from PyTorch alone."""
