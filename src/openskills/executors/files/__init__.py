"""Files of a workspace: paths are opened relative to it, and the kernel refuses those that lead out."""
