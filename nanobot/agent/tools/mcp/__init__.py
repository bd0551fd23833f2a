"""MCP servers: the programs and services of others that offer tools, resources and prompts."""
