"""`torch.cuda`, NCCL and `nvidia-smi`."""
