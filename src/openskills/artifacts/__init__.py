"""Named, versioned bytes: what runs made and somebody wants to keep."""
