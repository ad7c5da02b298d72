"""RootGuard inside agent frameworks: one module for each, over one `AgentGuard`."""
