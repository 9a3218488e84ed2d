"""Reader of ``nvidia-smi -q -x``, formats v10 to v13.

expat is driven directly: a document that declares an entity is refused at the declaration, so
nothing expands (entity bombs), and external entities and the DTD are never fetched.
"""

from xml.parsers import expat

from bettercompute.agent.inventory import InventoryUnreadable
from bettercompute.agent.vendors.nvidia_tree import DEPTH_MAX, SECTIONS_MAX, Section

ROOT = "nvidia_smi_log"

_BEGINNINGS = ("<?xml", "<!DOCTYPE", f"<{ROOT}")
_END = f"</{ROOT}>"


def split(text: str) -> tuple[str, str]:
    """The XML document within a text that has one, and everything around it.

    A driver that cannot reach a card writes a plain line before or after the document.
    """
    start = min(at for word in _BEGINNINGS if (at := text.find(word)) >= 0)
    end = text.rfind(_END)
    end = len(text) if end < start else end + len(_END)
    return text[start:end], text[:start] + "\n" + text[end:]


def read(text: str, *, source: str) -> Section:
    """The document's root. Raises: InventoryUnreadable."""
    builder = _Builder(source)
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.text
    parser.EntityDeclHandler = builder.refuse_entity
    try:
        parser.Parse(text.encode("utf-8", "replace"), True)
    except expat.ExpatError as error:
        raise InventoryUnreadable(
            f"{source}: expected the XML of `nvidia-smi -q -x`, found broken XML ({error})"
        ) from error
    root = builder.root.at(ROOT)
    if root is None:
        raise InventoryUnreadable(f"{source}: expected an XML document <{ROOT}>")
    return root


class _Builder:
    """Collects sections while expat walks the document."""

    def __init__(self, source: str) -> None:
        self.root = Section("")
        self._source = source
        self._open = [self.root]
        self._count = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._count += 1
        if len(self._open) > DEPTH_MAX or self._count > SECTIONS_MAX:
            raise InventoryUnreadable(f"{self._source}: the XML is deeper or longer than any GPU's")
        section = Section(name, attributes.get("id", ""))
        self._open[-1].children.append(section)
        self._open.append(section)

    def end(self, _name: str) -> None:
        self._open.pop()

    def text(self, text: str) -> None:
        if not text.isspace():
            self._open[-1].value += text

    def refuse_entity(self, name: str, *_declaration: object) -> None:
        raise InventoryUnreadable(
            f"{self._source}: the XML declares an entity ({name[:40]}); nvidia-smi never does"
        )
