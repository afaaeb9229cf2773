"""ResNet-50 in torch alone, for its shapes (He et al., arXiv:1512.03385).

The stride is in the 3 x 3 convolution, as in the variant called v1.5.
"""

from torch import Tensor, nn

STAGES = (3, 4, 6, 3)  # blocks in each


class Bottleneck(nn.Module):
    """(N, inputs, H, W) -> (N, 4 * width, H / stride, W / stride)."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        """Create a block with `width` channels in the middle."""
        super().__init__()
        outputs = 4 * width
        narrow = _convolution(inputs, width, window=1)
        square = _convolution(width, width, window=3, stride=stride)
        widen = _convolution(width, outputs, window=1)
        self.body = nn.Sequential(*narrow, nn.ReLU(), *square, nn.ReLU(), *widen)

        if stride == 1 and inputs == outputs:
            self.shortcut = nn.Identity()
        else:
            projection = _convolution(inputs, outputs, window=1, stride=stride)
            self.shortcut = nn.Sequential(*projection)

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's result, added to its input."""
        result = self.body(x) + self.shortcut(x)
        return result.relu()


def resnet50() -> nn.Sequential:
    """(N, 3, 224, 224) -> (N, 1000), with 25.6 million parameters."""
    layers = _convolution(3, 64, window=7, stride=2)
    layers += [nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for stage, blocks in enumerate(STAGES):
        width = 64 * 2**stage
        stride = 1 if stage == 0 else 2
        for _ in range(blocks):
            layers.append(Bottleneck(inputs, width, stride))
            inputs = 4 * width
            stride = 1
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000)]
    return nn.Sequential(*layers)


def _convolution(
    inputs: int, outputs: int, window: int, stride: int = 1
) -> list[nn.Module]:
    """Return a convolution that keeps the size of the image at stride 1, and its norm."""
    padding = window // 2
    convolution = nn.Conv2d(inputs, outputs, window, stride, padding, bias=False)
    return [convolution, nn.BatchNorm2d(outputs)]
