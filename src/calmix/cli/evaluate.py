"""`calmix evaluate`"""
def evaluate() -> None:
    """x"""
