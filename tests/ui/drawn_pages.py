"""Pages drawn by Streamlit's own test runner, and everything that they would put on the wire."""

from collections.abc import Iterator

from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Block

from ui.desk.context import Actor, Desk

ANA, LEA = Actor("ana", "annotator"), Actor("lea", "lead")


def page(name: str, desk: Desk, actor: Actor, **query: str) -> AppTest:
    """One view, run once."""

    def script(name: str, desk: object, actor: object) -> None:
        import importlib

        from ui.widgets.page import style

        style()
        importlib.import_module(f"ui.views.{name}").render(desk, actor)

    drawn = AppTest.from_function(script, args=(name, desk, actor), default_timeout=30)
    for key, value in query.items():
        drawn.query_params[key] = value
    drawn.run()
    assert not drawn.exception
    return drawn


def sent(drawn: AppTest) -> str:
    """Everything that this page would put on the wire."""

    def protos(block: Block) -> Iterator[str]:
        for child in block.children.values():
            if isinstance(child, Block):
                yield str(child.proto)
                yield from protos(child)
            else:
                yield str(child.proto)

    return "\n".join(protos(drawn._tree))


def shown(drawn: AppTest) -> str:
    """The HTML that the page shows."""
    return "".join(element.proto.body for element in drawn.get("html"))
