"""Network access of a sandbox: a proxy with an allow-list."""
