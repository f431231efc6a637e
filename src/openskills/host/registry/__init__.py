"""Which skills the host can invoke: manifests, scripts and folders, read, checked and read again."""
