"""How the model says that the product does not do what the documents say."""


class Disagreement(AssertionError):
    """The product and the documents differ."""


def require(holds: object, message: str) -> None:
    """Disagree unless it holds."""
    if not holds:
        raise Disagreement(message)
