"""All that a page, a command or a route may call; every mutating one checks the actor's role and writes the audit."""
