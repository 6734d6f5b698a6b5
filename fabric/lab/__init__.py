"""A leaf-spine of network namespaces on this machine: routed by FRR, reached by SSH, with real bytes on its links."""
