"""What to do about a machine on which bubblewrap does not work, from what it said and what the kernel is set to."""

import re
from collections.abc import Callable
from pathlib import Path

Setting = Callable[[str], str]
"""The value of a kernel setting, by its path below /proc/sys; empty when there is none."""

_ELSE = "Or use the executor `container`, or allow `local`, which isolates nothing."
_NAMESPACES_REFUSED = re.compile(r"namespace|uid map|gid map|RTM_NEWADDR|No permissions", re.IGNORECASE)


def kernel_setting(name: str) -> str:
    """The value that this machine has."""
    try:
        return (Path("/proc/sys") / name).read_text("ascii").strip()
    except OSError:
        return ""


def advice(said: str, setting: Setting = kernel_setting) -> str:
    """One or two sentences that say what to do."""
    if "Unknown option" in said:
        return f"This bubblewrap is too old: it needs --bind-fd, which came with 0.10. Upgrade it. {_ELSE}"
    if setting("user/max_user_namespaces") == "0":
        return f"User namespaces are off: sysctl -w user.max_user_namespaces=10000. {_ELSE}"
    if setting("kernel/unprivileged_userns_clone") == "0":
        return f"User namespaces are off: sysctl -w kernel.unprivileged_userns_clone=1. {_ELSE}"
    if setting("kernel/apparmor_restrict_unprivileged_userns") == "1":
        return (
            "AppArmor keeps user namespaces from programs without a profile: install the one for bwrap (Ubuntu: "
            "apt-get install apparmor-profiles, then link bwrap-userns-restrict into /etc/apparmor.d and reload). "
            f"{_ELSE}"
        )
    if _NAMESPACES_REFUSED.search(said):
        return f"If this is a container, it must be allowed to make user namespaces. {_ELSE}"
    return _ELSE
