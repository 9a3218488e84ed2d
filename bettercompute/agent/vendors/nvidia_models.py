"""Product names of NVIDIA cards, as short classes that people select by."""

import re

_BRAND = re.compile(r"^(NVIDIA|Tesla|GeForce)\s+", re.IGNORECASE)
_DATA_CENTRE = re.compile(r"^(G[BH]\d{3}|[ABHKLMPTV]\d{1,3}[A-Z]?)(?![0-9A-Za-z])")
_WORKSTATION = re.compile(r"^(RTX PRO \d{4})(?!\d)")
_SUFFIX = re.compile(r"\s+(Generation|GPU)$")
_SXM_ONLY_CLASSES = frozenset(
    {"H20", "H100", "H200", "H800", "B100", "B200", "B300", "GB200", "GB300"}
)


def model_class(product_name: str) -> str:
    """``NVIDIA A100-SXM4-80GB`` → ``A100``; a name with no known pattern stays as it is.

    The memory variant is not part of the class: selectors ask for memory by its amount.
    """
    name = product_name.strip()
    while (shorter := _BRAND.sub("", name)) != name:
        name = shorter
    for pattern in (_DATA_CENTRE, _WORKSTATION):
        if match := pattern.match(name):
            return match[1]
    return _SUFFIX.sub("", name) or "unknown"


def has_nvlink_fabric(product_name: str) -> bool:
    """Whether cards of this product sit on a board where each is linked to each (SXM).

    ``NVIDIA H200`` is the SXM module although its name does not say so; the PCIe ones do.
    """
    if re.search(r"PCIe|NVL\b", product_name, re.IGNORECASE):
        return False
    return "SXM" in product_name or model_class(product_name) in _SXM_ONLY_CLASSES
