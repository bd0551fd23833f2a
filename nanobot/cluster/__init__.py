"""Many gateways that share one PostgreSQL: who takes what, who lives, who polls. Loaded only where it is configured."""
