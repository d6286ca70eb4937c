"""x"""

from ui.usecases.context import Actor, Desk


def render(desk: Desk, actor: Actor) -> None: ...
