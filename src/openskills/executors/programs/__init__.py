"""Programs of ours that run by themselves, beside the host or inside a sandbox. They import nothing of ours."""
