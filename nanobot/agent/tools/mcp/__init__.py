"""MCP servers: programs and services of others that offer tools, resources and prompts. The modules load the SDK."""
