"""What `torch.cuda.get_device_properties` returns."""

from cudasim.device.gpu import GPU


class CudaProperties:
    """Sizes are in bytes. What depends on the generation of the card only is that of CUDA's guide
    (https://docs.nvidia.com/cuda/cuda-c-programming-guide/#compute-capabilities)."""

    warp_size, max_threads_per_block, regs_per_multiprocessor = 32, 1024, 65536
    shared_memory_per_block = 48 * 2**10
    is_integrated = is_multi_gpu_board = pci_device_id = pci_domain_id = 0
    gcnArchName = ""

    def __init__(self, gpu: GPU) -> None:
        card = gpu.card
        self.name, self.uuid, self.pci_bus_id = gpu.name, gpu.uuid, gpu.number + 1
        self.major, self.minor = card.capability
        self.total_memory, self.L2_cache_size = card.memory, card.cache
        self.multi_processor_count = card.processors
        threads = {(7, 5): 1024, (8, 9): 1536}.get(card.capability, 2048)
        shared = {(7, 0): 96, (7, 5): 64, (8, 0): 163, (9, 0): 227}.get(card.capability, 99)
        self.max_threads_per_multi_processor = threads
        self.shared_memory_per_block_optin = shared * 2**10
        self.shared_memory_per_multiprocessor = (shared + (self.major >= 8)) * 2**10

    def __repr__(self) -> str:
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory // 2**20}MB, "
            f"multi_processor_count={self.multi_processor_count}, uuid={self.uuid}, "
            f"pci_bus_id={self.pci_bus_id}, pci_device_id=0, pci_domain_id=0, "
            f"L2_cache_size={self.L2_cache_size // 2**20}MB)"
        )
