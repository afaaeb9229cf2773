"""What `torch.cuda.get_device_properties` returns."""

from cudasim.device.gpu import GPU


class CudaProperties:
    """Sizes are in bytes. What depends on the generation of the card only is that of CUDA's guide
    (https://docs.nvidia.com/cuda/cuda-c-programming-guide/#compute-capabilities).
    """

    def __init__(self, gpu: GPU) -> None:
        card = gpu.card
        self.name = gpu.name
        self.major, self.minor = card.capability
        self.total_memory = card.memory
        self.multi_processor_count = card.processors
        self.uuid = gpu.uuid
        self.warp_size = 32
        self.max_threads_per_block = 1024
        threads = {(7, 5): 1024, (8, 9): 1536}  # CUDA C++ Programming Guide, compute capabilities
        self.max_threads_per_multi_processor = threads.get(card.capability, 2048)
        self.regs_per_multiprocessor = 65536
        self.shared_memory_per_block = 48 * 2**10
        shared = {(7, 0): 96, (7, 5): 64, (8, 0): 163, (9, 0): 227}.get(card.capability, 99)
        self.shared_memory_per_block_optin = shared * 2**10
        self.shared_memory_per_multiprocessor = (shared + (self.major >= 8)) * 2**10
        self.is_integrated = self.is_multi_gpu_board = 0
        self.pci_bus_id, self.pci_device_id, self.pci_domain_id = gpu.number + 1, 0, 0
        self.L2_cache_size = card.cache
        self.gcnArchName = ""

    def __repr__(self) -> str:
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory // 2**20}MB, "
            f"multi_processor_count={self.multi_processor_count}, uuid={self.uuid}, "
            f"pci_bus_id={self.pci_bus_id}, pci_device_id={self.pci_device_id}, "
            f"pci_domain_id={self.pci_domain_id}, L2_cache_size={self.L2_cache_size // 2**20}MB)"
        )
