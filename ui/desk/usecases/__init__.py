"""Everything a page, a command or a route may call; every change checks the actor's role and is audited."""
