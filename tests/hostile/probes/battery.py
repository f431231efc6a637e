"""All probes. Importing a file of probes registers them."""

from tests.hostile.probes import (
    devices,
    inheriting,
    kernel,
    namespaces,
    neighbours,
    network,
    reading,
    resources,
    terminals,
    unix_sockets,
    writing,
)
from tests.hostile.probes.probe import GROUPS, PROBES

__all__ = ["FILES", "GROUPS", "PROBES"]

FILES = (
    *(devices, inheriting, kernel, namespaces, neighbours, network),
    *(reading, resources, terminals, unix_sockets, writing),
)
