"""The modules of torch for each type of device: `torch.accelerator`, `cuda`, `mps`."""
