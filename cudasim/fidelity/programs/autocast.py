"""Autocast: which type a result has, and what is refused."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.amp import GradScaler, autocast

from fidelity.asking import gpus, raised, warned


def products_are_of_half_precision():
    x, b = torch.ones(4, 4, device="cuda"), torch.ones(2, 4, 4, device="cuda")
    with autocast("cuda"):
        results = [
            x @ x,
            x @ x[0],
            torch.bmm(b, b),
            torch.addmm(x, x, x),
            F.linear(x, x),
        ]
        results += [torch.einsum("ij,jk->ik", x, x), torch.chain_matmul(x, x)]
    return [str(result.dtype) for result in results]


def convolutions_are_of_half_precision():
    image = torch.ones(1, 1, 4, 4, device="cuda")
    with autocast("cuda"):
        results = [
            nn.Conv2d(1, 1, 3).cuda()(image),
            nn.ConvTranspose2d(1, 1, 3).cuda()(image),
        ]
    return [str(result.dtype) for result in results]


def other_products_are_of_half_precision():
    x = torch.ones(4, 4, device="cuda")
    with autocast("cuda"):
        results = [
            torch.linalg.multi_dot([x, x, x]),
            F.conv1d(x[None], x[:, :, None]),
            F.conv2d(x[None, None], x[None, None, :3, :3], padding="same"),
            nn.LSTMCell(4, 3).cuda()(x)[1],
            nn.MultiheadAttention(4, 2).cuda()(x, x, x)[0],
        ]
    return [str(result.dtype) for result in results]


def other_sums_and_powers_are_of_single_precision():
    x = torch.ones(4, 4, device="cuda", dtype=torch.float16)
    with autocast("cuda"):
        results = [
            2**x,
            F.interpolate(x[None, None], scale_factor=2.0, mode="bilinear"),
            x.sum(1),
            torch.linalg.matrix_norm(x),
            x.norm(dim=1),
            torch._C._VariableFunctions.norm(x, 2),  # as C++ calls it
        ]
    return [str(result.dtype) for result in results]


def a_type_that_is_asked_for_is_given():
    x = torch.ones(4, 4, device="cuda", dtype=torch.float16)
    with autocast("cuda"):
        results = (
            x.softmax(1, dtype=x.dtype),
            x.sum(dtype=x.dtype),
            x.sum(1, dtype=torch.float64),
        )
    return [str(result.dtype) for result in results]


def sums_and_powers_are_of_single_precision():
    x = torch.ones(4, 4, device="cuda", dtype=torch.float16)
    with autocast("cuda"):
        results = [
            x.exp(),
            x.log(),
            x.pow(2),
            x.sum(),
            x.cumsum(0),
            x.norm(),
            x.prod(),
            x.rsqrt(),
        ]
    return [str(result.dtype) for result in results]


def softmax_and_normalisation_are_of_single_precision():
    x = torch.ones(4, 4, device="cuda", dtype=torch.float16)
    with autocast("cuda"):
        results = [
            x.softmax(0),
            F.log_softmax(x, 0),
            F.layer_norm(x, (4,)),
            F.gelu(x),
            F.softplus(x),
        ]
        results += [nn.BatchNorm1d(4).cuda()(x), F.group_norm(x, 1)]
    return [str(result.dtype) for result in results]


def losses_are_of_single_precision():
    x = torch.ones(4, 4, device="cuda", dtype=torch.float16)
    y = torch.zeros(4, dtype=torch.long, device="cuda")
    with autocast("cuda"):
        results = [
            F.cross_entropy(x, y),
            F.mse_loss(x, x),
            F.l1_loss(x, x),
            F.kl_div(x, x),
        ]
        results += [F.binary_cross_entropy_with_logits(x, x), F.cosine_similarity(x, x)]
    return [str(result.dtype) for result in results]


def other_operations_keep_their_type():
    x = torch.ones(4, 4, device="cuda", dtype=torch.float16)
    with autocast("cuda"):
        results = [
            x + 1,
            x.relu(),
            x.mean(),
            x.max(),
            x.T,
            x.sigmoid(),
            F.dropout(x),
            x.double() * 2,
        ]
    return [str(result.dtype) for result in results]


def of_two_types_the_wider_is_taken():
    x, y = (
        torch.ones(4, device="cuda"),
        torch.ones(4, device="cuda", dtype=torch.float16),
    )
    with autocast("cuda"):
        results = [
            x + y,
            torch.cat([x, y]),
            torch.stack([y, x]),
            torch.addcmul(y, x, y),
            x.dot(y),
        ]
    return [str(result.dtype) for result in results]


def others_that_take_the_wider_of_two_types():
    x, half = torch.ones(3, 3, device="cuda"), torch.ones(3, 3, device="cuda").half()
    index = torch.zeros(3, dtype=torch.long, device="cuda")

    def computed(x, y):
        with autocast("cuda"):
            return [
                torch.addcdiv(x, x, y),
                torch.atan2(x, y),
                torch.cross(x, y, dim=1),
                F.bilinear(x, y, x[None]),
                torch.tensordot(x, y, 1),
                x.index_put((index,), y),
                x.scatter_add(0, index[None], y),
            ]

    return [[str(each.dtype) for each in computed(first, half)] for first in (x, half)]


def types_that_do_not_meet():
    x = torch.ones(2, 2, device="cuda")
    with autocast("cuda"):
        return [
            raised(lambda: torch.atan2(x.bfloat16(), x)),
            raised(lambda: x.long() @ x.long()),
            str((x + x).dtype),
            str(x.exp_().dtype),
        ]


def double_precision_is_left_alone():
    x = torch.ones(2, 2, device="cuda", dtype=torch.float64)
    with autocast("cuda"):
        return str((x @ x).dtype), str(x.exp().dtype), str(x.int().dtype)


def brain_floats():
    x = torch.ones(2, 2, device="cuda")
    with autocast("cuda", dtype=torch.bfloat16):
        return (
            str((x @ x).dtype),
            str(x.softmax(0).dtype),
            str(torch.get_autocast_dtype("cuda")),
        )


def recurrent_layers_are_of_half_precision():
    x = torch.ones(2, 1, 3, device="cuda")
    with autocast("cuda"):
        return [
            str(kind(3, 2).cuda()(x)[0].dtype) for kind in (nn.RNN, nn.GRU, nn.LSTM)
        ]


def attention_is_of_half_precision():
    x = torch.ones(1, 2, 4, device="cuda")
    with autocast("cuda"):
        return str(F.scaled_dot_product_attention(x, x, x).dtype)


def inner_regions_have_a_type_of_their_own():
    x = torch.ones(2, 2, device="cuda")
    with autocast("cuda"), autocast("cuda", enabled=False):
        with autocast("cuda", dtype=torch.bfloat16):
            inner = x @ x
        return str(inner.dtype), str((x @ x).dtype)


def inner_regions_switch_it_off():
    x = torch.ones(2, 2, device="cuda")
    with autocast("cuda"):
        with autocast("cuda", enabled=False):
            inner = x @ x
        return str(inner.dtype), str((x @ x).dtype)


def tensors_of_the_cpu_are_left_alone():
    x = torch.ones(2, 2)
    with autocast("cuda"):
        return str((x @ x).dtype)


def a_region_of_the_cpu_leaves_the_gpu_alone():
    x = torch.ones(2, 2, device="cuda")
    with autocast("cpu"):
        return str((x @ x).dtype)


def the_state_is_told():
    def told():
        return torch.is_autocast_enabled("cuda"), torch.is_autocast_enabled("cpu")

    with autocast("cuda"):
        within = told()
    return told(), within, str(torch.get_autocast_dtype("cuda"))


def gradients_have_the_type_of_their_weights():
    net, x = nn.Linear(2, 2).cuda(), torch.ones(1, 2, device="cuda")
    with autocast("cuda"):
        y = net(x)
    y.sum().backward()
    return str(y.dtype), str(net.weight.dtype), str(net.weight.grad.dtype)


def in_place_and_into_a_result_are_not_cast():
    x, y = (
        torch.ones(2, 2, device="cuda"),
        torch.ones(2, 2, device="cuda", dtype=torch.float16),
    )
    with autocast("cuda"):
        return raised(lambda: torch.mm(x, y, out=x)), raised(lambda: x.addmm_(x, y))


def a_loss_that_is_not_safe():
    x = torch.ones(2, device="cuda")
    with autocast("cuda"):
        return raised(lambda: F.binary_cross_entropy(x, x))


def a_type_that_autocast_does_not_have():
    return warned(lambda: autocast("cuda", dtype=torch.float64)), raised(
        lambda: autocast("gpu")
    )


def the_old_spelling_warns():
    return warned(lambda: torch.cuda.amp.autocast()), warned(
        lambda: torch.cuda.amp.GradScaler()
    )


def functions_are_decorated():
    @autocast("cuda")
    def product(x):
        return x @ x

    return str(product(torch.ones(2, 2, device="cuda")).dtype)


def own_functions_choose_their_type():
    class Double(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
        def forward(ctx, x):
            return x * 2

    with autocast("cuda"):
        return str(
            Double.apply(torch.ones(2, device="cuda", dtype=torch.float16)).dtype
        )


def a_scaler_scales():
    scaler = GradScaler("cuda", init_scale=4.0)
    return scaler.get_scale(), repr(scaler.scale(torch.tensor(1.5, device="cuda")))


def a_scaler_has_a_state():
    return GradScaler("cuda").state_dict()


def a_scaler_steps_and_grows():
    weight = torch.ones(1, device="cuda", requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler = GradScaler("cuda", init_scale=4.0, growth_interval=1)
    scaler.scale((weight * 0.5).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    return repr(weight), scaler.get_scale()


def a_scaler_skips_what_is_infinite():
    weight = torch.ones(1, device="cuda", requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler = GradScaler("cuda", init_scale=4.0)
    weight.grad = torch.full((1,), float("inf"), device="cuda")
    scaler.scale(weight.sum())
    scaler.step(optimizer)
    scaler.update()
    return repr(weight), scaler.get_scale()


def a_scaler_refuses_gradients_of_half_precision():
    weight = torch.ones(1, device="cuda", dtype=torch.float16, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler = GradScaler("cuda")
    scaler.scale(weight.sum()).backward()
    return raised(lambda: scaler.unscale_(optimizer))


def a_scaler_is_used_in_order():
    optimizer = torch.optim.SGD(
        [torch.ones(1, device="cuda", requires_grad=True)], lr=1.0
    )
    scaler = GradScaler("cuda")
    return raised(lambda: scaler.update()), raised(lambda: scaler.step(optimizer))


@gpus(2)
def a_scaler_serves_two_gpus():
    first, second = nn.Linear(2, 2).to(0), nn.Linear(2, 2).to(1)
    optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
    scaler = GradScaler(init_scale=8.0)
    scaler.scale(second(first(torch.ones(1, 2, device=0)).to(1)).sum()).backward()
    scaler.unscale_(optimizer)
    told = second.bias.grad.tolist(), first.bias.grad.device.index
    scaler.step(optimizer)
    scaler.update()
    return told
