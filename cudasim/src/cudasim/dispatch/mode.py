"""The dispatch mode that sees every operation while GPUs are simulated; one for each thread."""

from typing import Any

from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.nn import Parameter
from torch.overrides import has_torch_function_unary

from cudasim.clock.clock import Clock
from cudasim.device.gpu import Allocation
from cudasim.device.types import DeviceType
from cudasim.dispatch import asserts, determinism, only_cuda, rules
from cudasim.dispatch.arguments import tensors_in
from cudasim.dispatch.booking import book
from cudasim.dispatch.devices import resolve
from cudasim.dispatch.foresight import COUNT
from cudasim.dispatch.operators import operator_of
from cudasim.dispatch.placement import NUMBERS, make_on, run, settle
from cudasim.dispatch.tags import gpu_of, storage_of
from cudasim.modes import LightMode
from cudasim.session import session

# Each has said, as it was imported, what runs for the operations that are its concern.
CONCERNS = (rules, determinism, asserts, only_cuda)
TRACED = (
    FakeTensor,
    FunctionalTensor,
)  # what PyTorch traces with: the next mode knows them
PLAIN = (
    Tensor,
)  # the types that an operation names when C++ keeps a tensor for backward
NO_TENSORS = frozenset((*NUMBERS, type(None)))
UNKNOWN = object()  # the place of no tensor
# Arguments by name that do not say where, and for which no layer around a rule asks.
HARMLESS = {"alpha", "approximate", "beta", "memory_format", "pin_memory", "value"}


class DeviceMode(LightMode):
    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self.doing = session.thread.doing

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple, kwargs: Any = None
    ) -> Any:
        """Run `func` on the CPU, with the devices that CUDA would see. Most operations have nothing
        about them that matters here, and plain tensors of one place. They run at once, as each call
        of a function of Python would be felt in each of them."""
        try:
            operator = func._cudasim  # RECORD
        except AttributeError:
            operator = operator_of(func)
        # Function modes, if there are some, would see what is asked of tensors here.
        easy = operator.direct and (not kwargs or kwargs.keys() <= HARMLESS)
        if easy and not has_torch_function_unary(None):
            gpu, bound = UNKNOWN, operator.factor
            try:
                for value in args if operator.all_tensors else args[: operator.tensors]:
                    kind = type(value)
                    if kind is Tensor or kind is Parameter:
                        there = value.untyped_storage()._cudasim  # TAG
                        if there is not None:
                            there = there.gpu
                            if there is None:  # it is scratch
                                gpu = UNKNOWN
                                break
                            if bound:
                                bound *= value.numel()
                        if there is not gpu:
                            if gpu is not UNKNOWN:
                                gpu = UNKNOWN
                                break
                            gpu = there
                    elif kind not in NO_TENSORS:
                        gpu = UNKNOWN
                        break
            except RuntimeError:  # it is sparse, or wraps another
                gpu = UNKNOWN
            if gpu is None:
                if self.doing.making is None:
                    self.doing.last_gpu = None
                    return (
                        operator.call(*args, **kwargs)
                        if kwargs
                        else operator.call(*args)
                    )
            elif (
                gpu is not UNKNOWN
                and gpu.alive
                and (
                    bound <= gpu.memory.room
                    or operator.bound(args, tensors_in(args)) < COUNT
                )
                and (operator.idle is None or operator.idle(args))
            ):
                self.doing.last_gpu = gpu
                try:
                    out = (
                        operator.call(*args, **kwargs)
                        if kwargs
                        else operator.call(*args)
                    )
                except (IndexError, RuntimeError):
                    pass  # it is told in CUDA's words below
                else:
                    if not operator.makes:
                        return out
                    if not operator.single or type(out) is not Tensor or session.traced:
                        return settle(out, gpu)
                    try:
                        storage = out.untyped_storage()
                    except RuntimeError:
                        return settle(out, gpu)
                    if storage._cudasim is None:
                        storage._cudasim = Allocation(gpu, storage.nbytes())
                    return out
        kwargs = kwargs or {}
        values = (*args, *kwargs.values()) if kwargs else args
        if types and types != PLAIN:
            if any(issubclass(kind, TRACED) for kind in types):
                return func(
                    *args, **kwargs
                )  # they record their own device and hold no data
            if any(is_wrapper(tensor) for tensor in tensors_in(values)):
                return NotImplemented  # the subclass takes it apart; what it calls comes here
        if operator.rule is not None:
            return operator.rule(func, args, kwargs)
        device = kwargs.get("device") if kwargs else None
        if device is None:
            return run(func, args, kwargs, tensors_in(values))
        if device.type == session.type.name:
            return make_on(resolve(device), func, args, kwargs)
        named = (
            "pin_memory" in kwargs and self.doing.making is None
        )  # by Python, never by C++
        return run(func, args, kwargs, () if named else tensors_in(values))


class CheckedMode(DeviceMode):
    """The same for devices that lack some dtypes."""

    def __torch_dispatch__(self, *call: Any) -> Any:
        out = super().__torch_dispatch__(*call)
        for tensor in tensors_in((out,)):
            if gpu_of(tensor) is not None:
                session.type.check_dtype(tensor)
        return out


class TimedMode(DeviceMode):
    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple, kwargs: Any = None
    ) -> Any:
        out = super().__torch_dispatch__(func, types, args, kwargs)
        traced = types and any(issubclass(kind, TRACED) for kind in types)
        if out is not NotImplemented and not traced:
            book(func, args, kwargs or {}, out)
        return out


def mode_for(type: DeviceType, clock: Clock | None = None) -> type[DeviceMode]:
    return TimedMode if clock else CheckedMode if type.missing else DeviceMode


def is_wrapper(tensor: Tensor) -> bool:
    """True for a tensor whose numbers are in others that it wraps, or that has none."""
    if type(tensor).__torch_dispatch__ is Tensor.__torch_dispatch__:
        return False
    try:
        return storage_of(tensor).data_ptr() == 0
    except RuntimeError:  # the storage of a wrapper refuses to say
        return True
