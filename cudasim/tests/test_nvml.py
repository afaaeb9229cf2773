"""NVML on simulated GPUs, by nvidia-ml-py and by ctypes."""

import ctypes
import os
import subprocess
import sys

import pytest
import torch
from calls import MIB, block

import cudasim
from cudasim.backends.cuda import nvml
from cudasim.device.types.cuda import CUDA

pytestmark = pytest.mark.usefixtures("two_gpus")

CONTEXT = CUDA.context
# Results, in nvml.h.
SUCCESS, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED = range(4)
NOT_FOUND, INSUFFICIENT_SIZE, UNKNOWN = 6, 7, 999


@pytest.fixture
def pynvml():
    """Return the package, initialized."""
    package = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    package.nvmlInit()
    return package


def smi(field):
    """Return what our `nvidia-smi` says of each card, in MiB."""
    command = ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader,nounits"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [int(line) for line in text.splitlines()]


def test_nvml_counts_all_cards_not_only_the_visible(pynvml, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert pynvml.nvmlDeviceGetCount() == 2


def test_memory_is_that_of_nvidia_smi(pynvml):
    X = block(20, "cuda:1")
    for index in range(2):
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2)
        assert memory.used // MIB == smi("memory.used")[index]
        assert memory.free // MIB == smi("memory.free")[index]
        assert memory.reserved // MIB == smi("memory.reserved")[index]
        assert memory.total // MIB == smi("memory.total")[index] == 15360
        # By nvml.h the first version counts what is reserved as used.
        first = pynvml.nvmlDeviceGetMemoryInfo(handle)
        assert first.used == memory.used + memory.reserved
        assert first.used + first.free == first.total
    del X


def test_a_process_is_listed_with_its_bytes(pynvml):
    X = block(20, "cuda:1")
    first, second = map(pynvml.nvmlDeviceGetHandleByIndex, range(2))
    assert pynvml.nvmlDeviceGetComputeRunningProcesses(first) == []
    (process,) = pynvml.nvmlDeviceGetComputeRunningProcesses(second)
    assert (process.pid, process.usedGpuMemory) == (os.getpid(), CONTEXT + 20 * MIB)
    assert pynvml.nvmlDeviceGetGraphicsRunningProcesses(second) == []
    del X


def test_torch_tells_processes_and_used_memory(pynvml):
    X = block(20, "cuda:1")
    assert torch.cuda.list_gpu_processes(0) == "GPU:0\nno processes are running"
    line = f"process {os.getpid():>10d} uses      155.000 MB GPU memory"
    assert torch.cuda.list_gpu_processes(1) == f"GPU:1\n{line}"
    used = 15360 * MIB - torch.cuda.mem_get_info(1)[0]
    assert torch.cuda.device_memory_used(1) == used
    del X


@pytest.mark.parametrize("name", ["temperature", "power_draw", "utilization"])
def test_what_no_sensor_measures_is_not_supported(pynvml, name):
    with pytest.raises(pynvml.NVMLError_NotSupported, match="Not Supported"):
        getattr(torch.cuda, name)(0)


def test_a_card_is_found_by_its_identity_and_its_bus(pynvml):
    uuid = f"GPU-{torch.cuda.get_device_properties(1).uuid}"
    handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
    assert pynvml.nvmlDeviceGetIndex(handle) == 1
    bus = pynvml.nvmlDeviceGetPciInfo(handle).busId
    assert bus == "00000000:02:00.0"
    handle = pynvml.nvmlDeviceGetHandleByPciBusId(bus)
    assert pynvml.nvmlDeviceGetUUID(handle) == uuid
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetHandleByUUID("GPU-0")
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlDeviceGetHandleByIndex(2)


# Published figures: deviceQuery's clocks in MHz and bus in bits, the data sheet's watts.
@pytest.mark.parametrize(
    ("card", "ratings"),
    [
        ("T4", (1590, 5001, 256, 70)),
        ("V100", (1530, 877, 4096, 300)),
        ("H100", (1980, 2619, 5120, 700)),
    ],
)
def test_ratings_are_those_of_the_published_card(pynvml, card, ratings):
    cudasim.disable()
    with cudasim.simulate(card=card):
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        assert ratings == (
            pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM),
            pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_MEM),
            pynvml.nvmlDeviceGetMemoryBusWidth(handle),
            pynvml.nvmlDeviceGetPowerManagementLimit(handle) / 1000,
        )


# https://docs.nvidia.com/datacenter/tesla/mig-user-guide/: supported GPUs
@pytest.mark.parametrize(("card", "has_mig"), [("T4", False), ("A100", True)])
def test_cards_that_can_be_divided_are_not(pynvml, card, has_mig):
    cudasim.disable()
    with cudasim.simulate(card=card):
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        assert pynvml.nvmlDeviceGetMaxMigDeviceCount(handle) == 0
        if has_mig:
            assert list(pynvml.nvmlDeviceGetMigMode(handle)) == [0, 0]
        else:
            with pytest.raises(pynvml.NVMLError_NotSupported):
                pynvml.nvmlDeviceGetMigMode(handle)


def test_the_driver_is_one_that_has_this_version_of_cuda(pynvml):
    # CUDA 13.0's release notes: a driver of the branch 580 or later.
    assert torch.version.cuda == "13.0"
    assert int(pynvml.nvmlSystemGetDriverVersion().split(".")[0]) >= 580


def test_every_cpu_is_near_every_card(pynvml):
    handle = pynvml.nvmlDeviceGetHandleByIndex(1)
    words = pynvml.nvmlDeviceGetCpuAffinity(handle, os.cpu_count() // 64 + 1)
    assert sum(word.bit_count() for word in words) == os.cpu_count()


MONITOR = """
import pynvml

pynvml.nvmlInit()
for index in range(pynvml.nvmlDeviceGetCount()):
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    processes = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    print([process.usedGpuMemory for process in processes])
"""


def test_a_monitor_that_is_started_sees_the_cards(pynvml):
    X = block(20, "cuda:1")
    command = [sys.executable, "-c", MONITOR]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", f"[{CONTEXT + 20 * MIB}]"]
    del X


@pytest.mark.skipif(
    os.path.exists("/proc/driver/nvidia"), reason="this machine has NVIDIA's driver"
)
def test_the_package_has_no_library_when_the_simulation_ends(pynvml):
    cudasim.disable()
    with pytest.raises(pynvml.NVMLError_LibraryNotFound):
        pynvml.nvmlInit()
    with pytest.raises(OSError, match="libnvidia-ml"):
        ctypes.CDLL("libnvidia-ml.so.1")


def test_a_program_may_call_the_library_by_ctypes():
    library = ctypes.CDLL("libnvidia-ml.so.1")
    count, handle = ctypes.c_uint(), ctypes.c_void_p()
    assert library.nvmlDeviceGetCount_v2(ctypes.byref(count)) == UNINITIALIZED
    assert library.nvmlInit_v2() == SUCCESS
    assert library.nvmlDeviceGetCount_v2(ctypes.byref(count)) == SUCCESS
    assert count.value == 2

    assert library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)) == SUCCESS
    name = ctypes.create_string_buffer(64)
    assert library.nvmlDeviceGetName(handle, None, 64) == INVALID_ARGUMENT
    assert library.nvmlDeviceGetName(handle, name, 4) == INSUFFICIENT_SIZE
    assert library.nvmlDeviceGetName(handle, name, 64) == SUCCESS
    assert name.value == b"Simulated GPU (T4)"
    assert library.nvmlDeviceGetFanSpeed(handle, ctypes.byref(count)) == NOT_SUPPORTED


@pytest.fixture
def library():
    """Return NVML as ctypes loads it, initialized."""
    library = ctypes.CDLL("libnvidia-ml.so.1")
    library.nvmlInit_v2()
    return library


# By nvml.h the array may be NULL where its length is 0.
def test_an_array_with_room_must_not_be_null(library):
    X = block(20, "cuda:0")
    count, handle = ctypes.c_uint(), ctypes.c_void_p()
    library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle))
    list_processes = library.nvmlDeviceGetComputeRunningProcesses_v3
    assert list_processes(handle, ctypes.byref(count), None) == INSUFFICIENT_SIZE
    assert count.value == 1
    assert list_processes(handle, ctypes.byref(count), None) == INVALID_ARGUMENT
    del X


def test_any_bytes_may_be_an_identity_or_a_bus(library):
    handle = ctypes.c_void_p()
    for find in (
        library.nvmlDeviceGetHandleByUUID,
        library.nvmlDeviceGetHandleByPciBusId,
    ):
        assert find(b"\xff", ctypes.byref(handle)) == NOT_FOUND


def test_an_unexpected_error_is_an_unknown_one_to_c(library, monkeypatch, capfd):
    monkeypatch.setattr(nvml, "published", lambda folder: 1 / 0)
    count = ctypes.c_uint()
    assert library.nvmlDeviceGetCount_v2(ctypes.byref(count)) == UNKNOWN
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_cards_are_visible_by_their_identities(monkeypatch):
    uuid = f"GPU-{torch.cuda.get_device_properties(1).uuid}"
    cudasim.disable()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", uuid)
    with cudasim.simulate(gpus=2):
        assert torch.cuda.device_count() == 1
        assert torch.cuda._get_nvml_device_index(0) == 1
