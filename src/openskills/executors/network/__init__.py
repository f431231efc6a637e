"""The one way out of a sandbox: a proxy that checks where it leads."""
