"""The screen Cluster: nodes of the Ray cluster with their load, and hosts that share a database."""

from typing import TYPE_CHECKING, Any

from openskills.errors import SkillError
from openskills.host.http import HttpResponse

if TYPE_CHECKING:
    from openskills.host.console.pages import PageRequest


async def show_cluster_page(request: "PageRequest") -> HttpResponse:
    """Nodes and hosts. What cannot be read is replaced by the reason."""
    monitor = request.host.cluster
    context: dict[str, Any] = {"cluster": None, "hosts": None, "errors": [], "is_used": monitor.is_used}
    for name, read in (("cluster", monitor.read_nodes), ("hosts", monitor.read_hosts)):
        try:
            context[name] = await read()
        except SkillError as error:
            context["errors"].append(error.message)
    return request.render("cluster.html", context, block="panel")


async def drain_node_page(request: "PageRequest") -> HttpResponse:
    """Drain a node, or undo it."""
    undo = (await request.form()).get("undo")
    await request.host.cluster.drain(request.params["node"], is_draining=undo != "1")
    return request.redirect("/console/cluster")


PAGES = (
    ("GET", "/console/cluster", show_cluster_page, "admin"),
    ("POST", "/console/cluster/nodes/{node}/drain", drain_node_page, "admin"),
)
