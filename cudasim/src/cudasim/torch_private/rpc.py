"""`torch.distributed.rpc`: requests to other processes, and their responses."""

from torch.distributed.rpc import api, backend_registry, internal

from cudasim.torch_private import Attribute

# What sends requests. Each takes the worker first, or its name.
REQUESTS = (
    Attribute(api, "_invoke_rpc_builtin"),
    Attribute(api, "_invoke_rpc_python_udf"),
    Attribute(api, "_invoke_rpc_torchscript"),
    Attribute(api, "_invoke_remote_builtin"),
    Attribute(api, "_invoke_remote_python_udf"),
    Attribute(api, "_invoke_remote_torchscript"),
)
# By which C++ serializes responses, and nothing else.
SERIALIZE_RESPONSE = Attribute(internal, "serialize")
# What checks the GPUs that all workers name as they begin.
CHECK_MAPS = Attribute(backend_registry, "_validate_device_maps")

# The agent of this process.
current_agent = api._get_current_rpc_agent

# A response in the place of an error.
RemoteException = internal.RemoteException
