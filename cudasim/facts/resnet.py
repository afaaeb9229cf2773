"""ResNet-50 in torch alone, for its shapes. Source: He, Zhang, Ren, Sun, arXiv:1512.03385.

The stride is in the 3 x 3 convolution, as in the variant called v1.5.
"""

from torch import Tensor, nn

STAGES = (3, 4, 6, 3)  # blocks in each


class Bottleneck(nn.Module):
    """(N, inputs, H, W) -> (N, 4 * width, H / stride, W / stride)."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        """`width` channels in the middle."""
        super().__init__()
        self.body = nn.Sequential(
            *_layer(inputs, width, 1, 1),
            nn.ReLU(),
            *_layer(width, width, 3, stride),
            nn.ReLU(),
            *_layer(width, 4 * width, 1, 1),
        )
        if stride == 1 and inputs == 4 * width:
            self.shortcut = nn.Identity()
        else:
            self.shortcut = nn.Sequential(*_layer(inputs, 4 * width, 1, stride))

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's result, added to what came in."""
        return (self.body(x) + self.shortcut(x)).relu()


def resnet50() -> nn.Sequential:
    """(N, 3, 224, 224) -> (N, 1000), with 25.6 million parameters."""
    layers = [*_layer(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for stage, count in enumerate(STAGES):
        width = 64 * 2**stage
        for block in range(count):
            stride = 2 if stage > 0 and block == 0 else 1
            layers.append(Bottleneck(inputs, width, stride))
            inputs = 4 * width
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000)]
    return nn.Sequential(*layers)


def _layer(inputs: int, outputs: int, window: int, stride: int) -> list[nn.Module]:
    convolution = nn.Conv2d(inputs, outputs, window, stride, window // 2, bias=False)
    return [convolution, nn.BatchNorm2d(outputs)]
