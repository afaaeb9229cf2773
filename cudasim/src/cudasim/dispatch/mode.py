"""The dispatch mode that sees every operation while GPUs are simulated; each thread has one."""

from typing import Any

from torch import Tensor
from torch.nn import Parameter
from torch.overrides import has_torch_function_unary

from cudasim.clock.clock import Clock
from cudasim.device.gpu import Allocation
from cudasim.device.types import DeviceType
from cudasim.dispatch.arguments import tensors_in
from cudasim.dispatch.booking import book
from cudasim.dispatch.foresight import LARGE_RESULT, UNKNOWN_SIZE
from cudasim.dispatch.operators import operator_of
from cudasim.dispatch.placement import NUMBERS, general, tag_results
from cudasim.dispatch.tags import gpu_of, storage_of
from cudasim.modes import LightMode
from cudasim.session import session
from cudasim.torch_private.dispatch import FakeTensor, FunctionalTensor
from cudasim.tracebacks import release_operands

# The tensors that PyTorch traces with. They record their own device and hold no data.
TRACED = (FakeTensor, FunctionalTensor)
# The types that an operation names when C++ keeps a tensor for backward.
PLAIN = (Tensor,)
NO_TENSORS = frozenset((*NUMBERS, type(None)))
# In the place of a GPU, or of None for the CPU: the short way does not know it.
UNKNOWN = object()


class DeviceMode(LightMode):
    """The mode that simulates GPUs."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self.operation = session.thread.operation

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple, kwargs: Any = None
    ) -> Any:
        """Run `func` on the CPU, with the devices that CUDA would see.

        Most operations have only plain tensors of one device and nothing special about
        them. They take the short way below. It costs a microsecond or two, and a function
        call is a good part of that: so it is one piece, and looks at attributes and types
        directly.
        """
        try:
            try:
                operator = func._cudasim  # RECORD
            except AttributeError:
                operator = operator_of(func)
            short = operator.direct and (
                not kwargs or kwargs.keys() <= operator.harmless
            )
            # Function modes, if there are any, would see what is read from tensors here.
            if short and not has_torch_function_unary(None):
                gpu = UNKNOWN
                # Times the elements of each operand: at most how many a result has. Only
                # `max_elements` can tell for an empty operand.
                quick_bound = operator.bound_factor
                operands = args
                if not operator.only_tensors:
                    operands = args[: operator.tensor_positions]
                try:
                    for value in operands:
                        kind = type(value)
                        if kind is Tensor or kind is Parameter:
                            home = None
                            tag = value.untyped_storage()._cudasim  # TAG
                            if tag is not None:
                                home = tag.gpu
                                if home is None:  # scratch
                                    gpu = UNKNOWN
                                    break
                                if quick_bound:
                                    quick_bound *= value.numel() or UNKNOWN_SIZE
                            if home is not gpu:
                                if gpu is not UNKNOWN:  # several devices
                                    gpu = UNKNOWN
                                    break
                                gpu = home
                        elif kind not in NO_TENSORS:
                            gpu = UNKNOWN
                            break
                except RuntimeError:  # it is sparse, or wraps another
                    gpu = UNKNOWN

                if gpu is None:
                    if self.operation.factory_gpu is None:
                        self.operation.last_gpu = None
                        if kwargs:
                            return operator.call(*args, **kwargs)
                        return operator.call(*args)
                elif (
                    gpu is not UNKNOWN
                    and gpu.alive
                    and (
                        quick_bound <= gpu.memory.room
                        or operator.max_elements(args, tensors_in(args)) < LARGE_RESULT
                    )
                    and (operator.idle is None or operator.idle(args))
                ):
                    self.operation.last_gpu = gpu
                    try:
                        if kwargs:
                            out = operator.call(*args, **kwargs)
                        else:
                            out = operator.call(*args)
                    except (IndexError, RuntimeError):
                        pass  # the long way below raises it in CUDA's words
                    else:
                        if not operator.makes_tensors:
                            return out
                        if (
                            not operator.single_result
                            or type(out) is not Tensor
                            or session.traced
                        ):
                            return tag_results(out, gpu)
                        try:
                            storage = out.untyped_storage()
                        except RuntimeError:
                            return tag_results(out, gpu)
                        if storage._cudasim is None:
                            storage._cudasim = Allocation(gpu, storage.nbytes())
                        return out

            kwargs = kwargs or {}
            values = (*args, *kwargs.values()) if kwargs else args
            if types and types != PLAIN:
                if is_traced(types):
                    return func(*args, **kwargs)
                if any(is_wrapper(tensor) for tensor in tensors_in(values)):
                    # The subclass takes it apart, and the operations within come here.
                    return NotImplemented

            run_rule = operator.rule or general
            return run_rule(func, args, kwargs)
        except BaseException as error:
            release_operands(error)
            args = kwargs = operands = value = values = storage = tag = out = None
            raise


class MissingDtypesMode(DeviceMode):
    """The same for types of device that lack some dtypes: it refuses results of those."""

    def __torch_dispatch__(self, *call: Any) -> Any:
        try:
            out = super().__torch_dispatch__(*call)
            for tensor in tensors_in((out,)):
                if gpu_of(tensor) is not None:
                    session.type.check_dtype(tensor)
            return out
        except BaseException as error:
            release_operands(error)
            call = out = tensor = None
            raise


class TimedMode(DeviceMode):
    """The same, with each operation booked on the virtual clock."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple, kwargs: Any = None
    ) -> Any:
        thread = session.thread
        try:
            out = super().__torch_dispatch__(func, types, args, kwargs)
            if out is NotImplemented or (types and is_traced(types)):
                return out
            if not (thread.skip_next_booking or thread.in_kernel):
                book(func, args, kwargs or {}, out)
            return out
        except BaseException as error:
            release_operands(error)
            args = kwargs = out = None
            raise
        finally:
            # Also after an error, or the next operation would not be booked.
            thread.skip_next_booking = False


def mode_for(type: DeviceType, clock: Clock | None = None) -> type[DeviceMode]:
    """Return the class of mode that simulates a type of device."""
    if clock:
        return TimedMode
    return MissingDtypesMode if type.missing else DeviceMode


def is_traced(types: Any) -> bool:
    """Return whether one of the types of an operation's tensors traces it."""
    return any(issubclass(kind, TRACED) for kind in types)


def is_wrapper(tensor: Tensor) -> bool:
    """Return whether the data of `tensor` is in others that it wraps, or nowhere."""
    if type(tensor).__torch_dispatch__ is Tensor.__torch_dispatch__:
        return False
    try:
        return storage_of(tensor).data_ptr() == 0
    except RuntimeError:  # the storage of a wrapper has no address
        return True
