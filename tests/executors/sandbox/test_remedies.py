import pytest

from openskills.executors.sandbox.remedies import advice, kernel_setting


@pytest.mark.parametrize(
    ("said", "settings", "fix"),
    [
        ("bwrap: Unknown option --bind-fd", {}, "Upgrade it"),
        ("x", {"user/max_user_namespaces": "0"}, "sysctl -w user.max_user_namespaces"),
        ("x", {"kernel/unprivileged_userns_clone": "0"}, "sysctl -w kernel.unprivileged_userns_clone=1"),
        ("x", {"kernel/apparmor_restrict_unprivileged_userns": "1"}, "AppArmor"),
        ("bwrap: No permissions to create new namespace", {}, "If this is a container"),
        ("something else", {}, "container"),
    ],
)
def test_each_reason_has_its_own_fix(said: str, settings: dict[str, str], fix: str) -> None:
    assert fix in advice(said, lambda name: settings.get(name, ""))


def test_a_setting_that_this_kernel_does_not_have_is_empty() -> None:
    assert kernel_setting("kernel/no_such_setting") == ""
    assert kernel_setting("kernel/ostype") == "Linux"
