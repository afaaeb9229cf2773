"""Learn which of ten notes sounds in a noisy recording."""

import numpy as np
import torch
from torch import nn

device = torch.device('cuda:0' if torch.cuda.is_available() else 'cpu')


def draw_recordings(n, seed):
    """Return n noisy recordings, 256 samples each, and their notes."""
    rng = np.random.default_rng(seed)
    notes = rng.integers(10, size=n)
    phases = 2 * np.pi * np.arange(256) / 256 + 6 * rng.random((n, 1))
    waves = np.sin((5 + 3 * notes[:, None]) * phases)
    recordings = waves + rng.normal(0, 0.3, (n, 256))
    return torch.from_numpy(recordings).float(), torch.from_numpy(notes)


def standardized(x):
    """Give each recording the mean 0 and the standard deviation 1."""
    return (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)


def batches(recordings, notes, size=64):
    """Yield batches of recordings and notes, on the device."""
    for i in range(0, len(recordings), size):
        yield recordings[i:i + size], notes[i:i + size]


class Net(nn.Module):
    """A transformer that reads a recording as 32 pieces of 8 samples."""

    def __init__(self, classes, width=64, depth=2):
        super().__init__()
        self.pieces = nn.Linear(8, width)
        self.places = nn.Parameter(0.1 * torch.randn(32, width))
        layers = [
            nn.TransformerEncoderLayer(width, 4, 4 * width,
                                       norm_first=True, batch_first=True)
            for _ in range(depth)]
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.pieces(x.reshape(len(x), 32, 8)) + self.places
        return self.head(self.layers(x).mean(1))


def make_model():
    """Return a network and the optimizer that trains it."""
    model = Net(classes=100)
    model.head = nn.Linear(64, 10)  # ten notes, not a hundred
    model.to(device)
    return model, torch.optim.Adam(model.parameters(), lr=0.005)


def train_pass(model, optimizer, seen, log):
    """Learn once from each recording; log losses and sizes of gradients."""
    for X, y in batches(*seen):
        loss = nn.functional.cross_entropy(model(X), y)
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.get_total_norm([p.grad for p in model.parameters()])
        optimizer.step()
        log.append((loss.detach(), norm))


def evaluate(model, X, y):
    """Return the loss on unseen recordings and the share of notes found."""
    model.eval()
    scores = model(X)
    model.train()
    found = (scores.argmax(1) == y).float().mean()
    return nn.functional.cross_entropy(scores, y), found


def prepare():
    """Return the network, its optimizer, and seen and unseen recordings."""
    torch.manual_seed(0)
    model, optimizer = make_model()
    parts = []
    for n, seed in ((1024, 1), (1024, 2)):
        recordings, notes = draw_recordings(n, seed)
        X = standardized(recordings).to(device)
        parts.append((X, notes.to(device)))
    return model, optimizer, *parts


def train(model, optimizer, seen, unseen):
    """Learn in two passes, and return the losses on unseen recordings."""
    log, history = [], []
    for number in range(1, 3):
        train_pass(model, optimizer, seen, log)
        loss, found = evaluate(model, *unseen)
        history.append(loss)
        print(f'pass {number}: {found.item():.0%} of unseen notes found')
    return history


if __name__ == '__main__':
    print(train(*prepare()))
