"""Sources of skills to local directories: archives, URLs, repositories, indexes, packages."""
