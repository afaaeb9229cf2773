"""Train a network on digits, in as many processes as torchrun starts."""

import os
import time
from argparse import SUPPRESS, ArgumentParser
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist
import torch.distributed.nn  # late, it would hold the group for good
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def newest(folder):
    """The newest checkpoint that can be read; None if there is none."""
    assert folder, "--resume needs --checkpoint"
    for file in sorted(folder.glob("epoch-*.pt"), reverse=True):
        try:
            return torch.load(file, map_location="cpu")
        except Exception as error:  # which one depends on the cut
            print(f"cannot read {file.name}: {error}\n", end="")


def train(model, optimizer, batches, device):
    """One pass over this rank's images; returns their mean loss."""
    losses = []
    for X, y in batches:
        X, y = X.to(device), y.to(device)
        loss = nn.functional.cross_entropy(model(X), y)
        optimizer.zero_grad()
        loss.backward()  # gradients become their mean over all ranks
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).mean()


parser = ArgumentParser("train.py", usage=SUPPRESS)
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--global-batch", type=int, default=64)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--checkpoint", type=Path)  # a folder
parser.add_argument("--resume", action="store_true")
parser.add_argument("--backend")  # nccl or gloo
parser.add_argument("--timeout", type=int, default=60)  # seconds
args = parser.parse_args()
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
gpu, gpus = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
backend = args.backend or ("nccl" if gpus else "gloo")
device = torch.device(f"cuda:{gpu}" if backend == "nccl" else "cpu")
torch.manual_seed(args.seed)  # every rank draws the same first weights
first = [nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
second = [nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
net = nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(128, 10))
try:
    assert 0 <= rank < world, f"RANK is not below WORLD_SIZE, {world}"
    assert gpu or backend in ("nccl", "gloo"), "--backend is nccl or gloo"
    assert backend != "nccl" or gpu < gpus, f"no GPU, start {gpus} at most"
    share, rest = divmod(args.global_batch, world)
    assert rank or not rest, f"--global-batch is no multiple of {world}"
    state = newest(args.checkpoint) if args.resume and rank == 0 else None
    other = state and state["fingerprint"] != repr(net)
    assert not other, f"{args.checkpoint} holds another model"
    torch.cuda.set_device(gpu if backend == "nccl" else -1)
    dist.init_process_group(backend, timeout=timedelta(0, args.timeout))
    dist.broadcast_object_list(states := [state])  # what rank 0 has read
except (AssertionError, dist.DistError) as error:
    raise SystemExit(f"train.py: rank {rank}: {error}") from None
model = nn.parallel.DistributedDataParallel(net.to(device))
adam = torch.optim.Adam(net.parameters(), lr=0.01)
if state := states[0]:
    net.load_state_dict(state["model"])
    adam.load_state_dict(state["optimizer"])
X, y = (torch.tensor(part) for part in load_digits(return_X_y=True))
X, fifth = X.float().view(-1, 1, 8, 8) / 16, torch.arange(len(y)) % 5 == 0
seen = TensorDataset(X[~fifth], y[~fifth])
sampler = DistributedSampler(seen, seed=args.seed)
batches = DataLoader(seen, share, sampler=sampler, drop_last=True)
X, y = X[fifth][rank::world].to(device), y[fifth][rank::world].to(device)
for epoch in range(state["epoch"] + 1 if state else 0, args.epochs):
    sampler.set_epoch(epoch)  # another order in each epoch
    start = time.perf_counter()
    loss = train(model, adam, batches, device)
    with torch.no_grad():
        right = (net(X).argmax(1) == y).sum() / fifth.sum()
    dist.all_reduce(totals := torch.stack([loss / world, right]))  # sums
    if rank == 0:
        line = "epoch {}: loss {:.3f}, accuracy {:.3f}\n"
        print(line.format(epoch, *totals.tolist()), end="", flush=True)
    if rank == 0 and args.checkpoint:
        state = dict(epoch=epoch, world_size=world, fingerprint=repr(net))
        state.update(model=net.state_dict(), optimizer=adam.state_dict())
        state["seconds"] = time.perf_counter() - start
        args.checkpoint.mkdir(parents=True, exist_ok=True)
        torch.save(state, part := args.checkpoint / "part")
        os.replace(part, args.checkpoint / f"epoch-{epoch:04}.pt")
del model  # it holds the group
dist.destroy_process_group()
