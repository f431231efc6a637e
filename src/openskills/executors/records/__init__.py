"""Records of workspaces on disk: leases, request journal, audit log, quota."""
