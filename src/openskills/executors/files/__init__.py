"""Files in a workspace: every path is opened by the kernel, relative to the workspace, and never leads out."""
