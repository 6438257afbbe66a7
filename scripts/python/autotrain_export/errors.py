class ExportError(Exception):
    """Says why a module cannot be exported, and what to try."""
