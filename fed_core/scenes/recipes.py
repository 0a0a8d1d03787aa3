"""What a folder of made-up data was made by: noted before anything is written, so that a stopped command can go on."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fed_core.errors import DataError
from fed_core.wire.files import write_text

RECIPE = "recipe.json"


def claim(root: Path, recipe: Mapping[str, Any]) -> None:
    """Note the recipe in a folder, made if missing.

    Raises:
        DataError: it holds another recipe or other files, or cannot be written.
    """
    path, text = root / RECIPE, json.dumps(recipe) + "\n"
    try:
        root.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            if any(root.iterdir()):
                raise DataError(f"{root} is not empty; choose a new folder")
            write_text(path, text)
        elif path.read_text() != text:
            raise DataError(f"{root} holds data of another recipe ({RECIPE}); choose a new folder, or delete this one")
    except OSError as err:
        raise DataError(f"cannot write {root}: {err.strerror}") from err
