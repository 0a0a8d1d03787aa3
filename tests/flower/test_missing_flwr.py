"""Without flwr one line says what to install."""

import subprocess
import sys
from pathlib import Path


def test_one_line_says_what_is_missing() -> None:
    hidden = "import sys; sys.modules['flwr'] = None\n"
    code = hidden + "try:\n    import fed_flower.strategy\nexcept ImportError as err:\n    print(err)"
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, timeout=60)
    text = done.stdout.strip()
    assert text.startswith("fed_flower needs the package flwr, which cannot be imported (")
    assert text.endswith("); pip install 'fed_perception[flower]' (Python 3.11 or newer)")
    assert "\n" not in text
