"""The cache that all desks of one user share: downloaded models and Label Studio's migrated database."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """`$SAGEDESK_CACHE`, else `$XDG_CACHE_HOME/sagedesk`, else `~/.cache/sagedesk`; absolute; may not exist yet."""
    if own := os.environ.get("SAGEDESK_CACHE"):
        return Path(own).absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache").absolute() / "sagedesk"
