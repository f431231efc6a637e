"""The registry of the host: which skills it can invoke, from manifests, scripts and folders, and its reloads."""
