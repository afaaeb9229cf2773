"""`torch.cuda` and `torch.accelerator`, function by function."""

import ctypes
import importlib.util
import math
import re
import types
import uuid
from pathlib import Path

import pytest
import torch
from calls import in_thread, raised
from torch.nn import functional as F

import cudasim

pytestmark = pytest.mark.usefixtures("two_gpus")
RNG_STATE = torch.zeros(16, dtype=torch.uint8)
ALLOCATOR = types.SimpleNamespace(allocator=lambda: None)
# Arguments with which each public function is called; those not named need none.
ARGUMENTS = {
    # An index or a code.
    "CudaError": [0],
    "check_error": [0],
    "device": [0],
    "device_index": [0],
    "set_device": [0],
    "set_device_idx": [0],
    "set_device_index": [0],
    "set_sync_debug_mode": [0],
    # A stream, a graph, a pool.
    "StreamContext": [None],
    "graph": [None],
    "stream": [None],
    "use_mem_pool": [None],
    "ExternalStream": [64],
    "get_stream_from_external": [64],
    "make_graphed_callables": [(), ()],
    # Hooks.
    "export_dot": ["no-such-folder/graph"],
    "export_graph_data": ["no-such-folder/graph"],
    # Memory.
    "CUDAPluggableAllocator": ["no-such-library", "allocate", "free"],
    "caching_allocator_alloc": [100],
    "caching_allocator_delete": [0],
    "can_device_access_peer": [0, 1],
    "change_current_allocator": [ALLOCATOR],
    "device_of": [RNG_STATE],
    "set_per_process_memory_fraction": [1.0],
    # Random numbers.
    "manual_seed": [1],
    "manual_seed_all": [1],
    "set_rng_state": [RNG_STATE],
    "set_rng_state_all": [[RNG_STATE]],
}
REFUSED = {
    "change_current_allocator": (NotImplementedError, "cudasim: "),
    "CUDAPluggableAllocator": (OSError, "no-such-library"),
    # An address that was never given.
    "caching_allocator_delete": (RuntimeError, "cudasim: |invalid device"),
}
NVML = "clock_rate memory_usage power_draw temperature utilization"
if importlib.util.find_spec("pynvml"):  # simulated GPUs have no sensors
    REFUSED |= dict.fromkeys(NVML.split(), (Exception, "Not Supported"))
else:
    missing = (ModuleNotFoundError, "nvidia-ml-py does not seem")
    REFUSED |= dict.fromkeys(["device_memory_used", *NVML.split()], missing)
MODULES = torch.cuda, torch.accelerator, torch.cuda.memory
FUNCTIONS = [(module, name) for module in MODULES for name in module.__all__]


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
@pytest.mark.parametrize("module, name", FUNCTIONS)
def test_every_public_function_answers_or_says_why_not(module, name):
    function = getattr(module, name)
    arguments = ARGUMENTS.get(name, [])
    if name == "set_stream":
        arguments = [module.current_stream()]
    if name in REFUSED:
        kind, words = REFUSED[name]
        with pytest.raises(kind, match=words):
            function(*arguments)
    elif callable(function) and name != "GreenContext":  # made by its `create`
        function(*arguments)


def test_an_allocator_cannot_be_swapped_once_cuda_has_begun():
    """torch/csrc/cuda/CUDAPluggableAllocator.cpp: `changeCurrentAllocator`"""
    torch.cuda.init()
    message = raised(lambda: torch.cuda.change_current_allocator(ALLOCATOR))
    assert message == "Can't swap an already initialized allocator"


def test_no_function_of_a_build_for_cuda_is_missing():
    """Those that PyTorch's Python code names, or its stubs."""
    only_hip = {"_cuda_getHipblasltVersion"}
    misspelt = {"_cuda_tunableop_get_rotation_buffer_size"}  # in the stubs
    names = set()
    folder = Path(torch.__file__).parent
    for path in folder.rglob("*.py"):
        text = path.read_text(encoding="utf-8", errors="replace")
        names.update(re.findall(r"_C\.(_cuda_\w+)", text))
    stubs = (folder / "_C" / "__init__.pyi").read_text(encoding="utf-8")
    names.update(re.findall(r"^def (_cuda_\w+)", stubs, re.MULTILINE))
    missing = {name for name in names if not hasattr(torch._C, name)}
    assert missing - only_hip - misspelt == set()
    assert len(names) > 80


def test_the_allocators_can_be_named():
    allocator = torch.cuda.memory._get_current_allocator()
    assert allocator.allocator() is not None
    assert torch.cuda.memory._host_allocator() != 0


def test_the_current_gpu_is_that_of_its_thread():
    with pytest.raises(ZeroDivisionError), torch.cuda.device(1):
        raise ZeroDivisionError
    assert torch.cuda.current_device() == 0
    torch.accelerator.set_device_index(1)
    assert torch.cuda.current_device() == 1
    assert in_thread(torch.cuda.current_device) == 0
    with torch.accelerator.device_index(None):
        assert torch.cuda.current_device() == 1


def test_the_accelerator_is_cuda():
    supported = torch.accelerator.get_device_capability()["supported_dtypes"]
    assert torch.float32 in supported
    assert torch.get_device_module() is torch.cuda


def test_properties_have_cudas_fields_and_print_as_cudas():
    properties = torch.cuda.get_device_properties("cuda:1")
    assert repr(properties) == (
        "_CudaDeviceProperties(name='Simulated GPU (T4)', major=7, minor=5, total_memory=14912MB, "
        f"multi_processor_count=40, uuid={properties.uuid}, pci_bus_id=2, pci_device_id=0, "
        "pci_domain_id=0, L2_cache_size=4MB)"
    )
    assert uuid.UUID(str(properties.uuid)) != torch.cuda.get_device_properties(0).uuid
    assert properties.warp_size == 32
    assert properties.max_threads_per_multi_processor == 1024
    assert torch.cuda.get_device_properties(1) is properties
    assert torch.cuda.get_arch_list() == ["sm_75"]
    assert torch.cuda.is_bf16_supported()
    assert not torch.cuda.is_bf16_supported(including_emulation=False)


# In GB/s: what NVIDIA's data sheets print for the first two, and for H100 what XLA records
# of a card (xla/backends/gpu/target_config/specs/h100_sxm.txtpb).
@pytest.mark.parametrize(
    ("card", "bandwidth"), [("T4", 320), ("A100", 1555), ("H100", 3352.32)]
)
def test_the_bandwidth_follows_from_clock_and_bus(card, bandwidth):
    limits = pytest.importorskip(
        "torch.cuda._device_limits", reason="this PyTorch computes no limits"
    )
    cudasim.disable()
    with cudasim.simulate(card=card):
        computed = limits.GPULimits(0).get_memory_bandwidth_Bps()
    assert computed == pytest.approx(bandwidth * 1e9, rel=0.001)


def test_properties_are_those_of_a_build_for_cuda():
    """The names are those of `_CudaDeviceProperties` in CUDA builds of 2.11 and 2.14."""
    names = """
        L2_cache_size clock_rate gcnArchName is_integrated is_multi_gpu_board major
        max_threads_per_block max_threads_per_multi_processor memory_bus_width
        memory_clock_rate minor multi_processor_count name pci_bus_id pci_device_id
        pci_domain_id regs_per_multiprocessor shared_memory_per_block
        shared_memory_per_block_optin shared_memory_per_multiprocessor total_memory uuid
        warp_size
    """
    properties = torch.cuda.get_device_properties(0)
    public = {name for name in dir(properties) if not name.startswith("_")}
    assert public == set(names.split())


def test_properties_refuse_as_those_of_pybind11():
    """The first error is published, as in https://github.com/koda-dernet/Side-Step/issues/42."""
    properties = torch.cuda.get_device_properties(0)
    lacks = "'torch._C._CudaDeviceProperties' object has no attribute 'total_mem'"
    with pytest.raises(AttributeError, match=re.escape(lacks)):
        properties.total_mem  # noqa: B018
    with pytest.raises(AttributeError, match="has no setter"):
        properties.total_memory = 2**30
    assert properties.total_memory > 2**33


# MiB, as PyTorch was seen to print them, and capability.
CARDS = {
    "T4": (14912, (7, 5)),
    "V100": (16160, (7, 0)),
    "TITAN RTX": (24220, (7, 5)),
    "A100": (40536, (8, 0)),
    "H100": (81089, (9, 0)),
    "H200": (143156, (9, 0)),
    "RTX 4090": (24217, (8, 9)),
}


@pytest.mark.parametrize("card", CARDS)
def test_every_card_has_properties(card):
    mib, capability = CARDS[card]
    cudasim.disable()
    with cudasim.simulate(card=card):
        assert torch.cuda.get_device_name() == f"Simulated GPU ({card})"
        assert torch.cuda.mem_get_info()[1] == mib * 2**20
        assert torch.cuda.get_device_capability() == capability
        assert torch.cuda.is_tf32_supported() == (capability >= (8, 0))
        staged = card in ("T4", "RTX 4090")  # their sheets grant no peer access
        assert torch.cuda.can_device_access_peer(0, 1) == (not staged)


def test_settings_are_read_back():
    torch.cuda.init()
    assert torch.backends.cudnn.is_available()
    assert torch.backends.cudnn.version() > 0
    with torch.backends.cudnn.flags(enabled=False):
        assert not torch.backends.cudnn.enabled
    torch.cuda.tunable.set_filename("results.csv")
    assert torch.cuda.tunable.get_filename() == "results.csv"


def test_tuning_is_read_back():
    tunable = torch.cuda.tunable
    assert not tunable.is_enabled()
    tunable.enable(True)
    assert tunable.is_enabled()
    assert tunable.get_max_tuning_duration() != 5
    tunable.set_max_tuning_duration(5)
    assert tunable.get_max_tuning_duration() == 5


def test_the_workspace_of_cublas_is_read_back_and_reset():
    usual = 8320 * 2**10
    assert torch._C._cuda_getCublasWorkspaceSize() == usual
    torch._C._cuda_setCublasWorkspaceSize(64)
    assert torch._C._cuda_getCublasWorkspaceSize() == 64
    torch._C._cuda_resetCublasWorkspaceSize()
    assert torch._C._cuda_getCublasWorkspaceSize() == usual


def test_the_caching_allocator_is_disabled_in_a_block():
    torch.cuda.init()
    enabled = torch._C._cuda_cudaCachingAllocator_is_enabled
    if torch.__version__ >= (2, 12):
        with torch.cuda.memory.caching_allocator_disabled():
            assert not enabled()
    assert enabled()


def test_the_runtime_pins_memory():
    cudart = torch.cuda.cudart()
    tensor = torch.ones(20)
    address = tensor.data_ptr()
    with torch.cuda.profiler.profile():
        assert cudart.cudaHostRegister(address, 80, 0) == 0
        assert tensor.is_pinned()
    assert cudart.cudaHostUnregister(address) == 0
    assert not tensor.is_pinned()
    assert cudart.cudaHostUnregister(address) == 713


def test_the_runtime_makes_streams():
    cudart = torch.cuda.cudart()
    address = ctypes.c_uint64(0)
    assert cudart.cudaStreamCreate(ctypes.addressof(address)) == 0
    assert torch.cuda.ExternalStream(address.value).cuda_stream == address.value != 0
    assert cudart.cudaStreamDestroy(address.value) == 0


def test_old_types_take_a_device():
    tensor = torch.cuda.LongTensor([1, 2], device=torch.device("cuda", 1))
    assert tensor.get_device() == 1
    assert tensor.dtype is torch.int64
    assert tensor.tolist() == [1, 2]
    assert torch.cuda.LongTensor(size=(2, 3)).shape == (2, 3)
    assert torch.cuda.LongTensor(data=[1, 2]).get_device() == 0
    with torch.cuda.device(1):
        for device, index in ((0, 0), (1, 1), (None, 1)):
            assert torch.cuda.FloatTensor(1, device=device).get_device() == index
    words = raised(lambda: torch.cuda.FloatTensor(2, device="cpu"))
    assert words == (
        "legacy constructor expects device type: cuda but device type: cpu was passed"
    )


def test_an_old_type_may_be_the_default():
    cudasim.disable()
    before = torch.version.cuda
    with cudasim.simulate(gpus=2):
        assert torch.version.cuda.split(".")[0] == "13"
        torch.set_default_tensor_type(torch.cuda.DoubleTensor)
        x = torch.ones(2)
        assert x.device == torch.device("cuda", 0)
        assert x.dtype is torch.float64
        assert torch.nn.Linear(1, 1).weight.is_cuda
        assert repr(torch.tensor([1])) == "tensor([1])"

        torch.set_default_tensor_type("torch.FloatTensor")
        y = torch.ones(1)
        assert y.device.type == "cpu"
        assert y.dtype is torch.float32
        assert repr(torch.ones(1, device="cuda")) == "tensor([1.], device='cuda:0')"

        torch.set_default_tensor_type("torch.cuda.FloatTensor")
        with pytest.raises(TypeError, match="only floating-point types are supported"):
            torch.set_default_tensor_type(torch.cuda.LongTensor)

    # The simulation takes its default with it.
    assert torch.ones(1).device.type == "cpu"
    assert torch.version.cuda is before


@pytest.mark.parametrize("home", ["cpu", "cuda"])
def test_lengths_of_ctc_loss_may_be_anywhere(home):
    x = torch.rand(4, 1, 3, requires_grad=True)
    targets = torch.tensor([[1, 2]])
    expected = F.ctc_loss(x.log_softmax(2), targets, [4], [2])
    expected.backward()

    on_gpu = x.detach().cuda().requires_grad_()
    lengths = torch.tensor([4], device=home), torch.tensor([2], device=home)
    loss = F.ctc_loss(on_gpu.log_softmax(2), targets.cuda(), *lengths)
    loss.backward()
    assert loss.is_cuda
    assert loss.item() == pytest.approx(expected.item())
    assert torch.allclose(on_gpu.grad.cpu(), x.grad)


@pytest.mark.parametrize(
    ("home", "elsewhere"), [("cuda", "cpu"), ("cuda", "cuda:1"), ("cpu", "cuda")]
)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_targets_of_ctc_loss_may_be_elsewhere(home, elsewhere, dtype):
    # `ctc_loss_impl` of LossCTC.cpp moves them to the scores' device.
    scores = torch.zeros(4, 1, 3, device=home).log_softmax(2)
    targets = torch.tensor([1], dtype=dtype, device=elsewhere)
    lengths = torch.tensor([4]), torch.tensor([1])
    loss = F.ctc_loss(scores, targets, *lengths, blank=2)
    assert loss.device == scores.device
    # Of the 81 equally likely paths ten are blank but for one run of the label.
    assert loss.item() == pytest.approx(math.log(81 / 10))

    lists = [4], [1]
    assert F.ctc_loss(scores, targets, *lists, blank=2).item() == loss.item()
    loss = torch.nn.CTCLoss(blank=2)(scores, targets[None], *lengths)
    assert loss.item() == pytest.approx(math.log(81 / 10))


def test_ctc_loss_in_the_form_of_cudnn_is_a_limit():
    scores = torch.zeros(4, 1, 3, device="cuda").log_softmax(2)
    targets = torch.tensor([1], dtype=torch.int32)
    with pytest.raises(NotImplementedError, match="ctc_loss in cuDNN's form"):
        F.ctc_loss(scores, targets, [4], [1])

    # Native code computes scores that are shorter, and all with cuDNN turned off.
    assert F.ctc_loss(scores, targets, [3], [1]).is_cuda
    with torch.backends.cudnn.flags(enabled=False):
        assert F.ctc_loss(scores, targets, [4], [1]).is_cuda
