"""MCP: skills, their tools and hosted skills for any MCP client. Needs the extra `mcp`."""
