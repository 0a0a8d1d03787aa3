"""What a node says when it is asked for help."""

import sys
from pathlib import Path

_USAGE = """{what}

usage: {name}{more} --ros-args -r __ns:=/NAMESPACE -p NAME:=VALUE ... --params-file FILE

Parameters, with meaning, unit and default: config/{name}.yaml, docs/interfaces.md.
Texts that hold YAML, or look like a number, need quotes in quotes: -p source:="'{{data: my_bag}}'".
"""


def told(doc: str, more: str = "") -> bool:
    """Write how a node is started, if the command line asks for it.

    Args:
        doc: docstring of its module, whose first paragraph says what it is.
        more: arguments that it takes beside those of ROS.

    Returns:
        whether it was asked for.
    """
    own = sys.argv[1 : sys.argv.index("--ros-args") if "--ros-args" in sys.argv else None]
    if not {"-h", "--help"} & set(own):
        return False
    what = doc.split("\n\n")[0].replace("``", "").strip()
    sys.stdout.write(_USAGE.format(what=what, name=Path(sys.argv[0]).stem, more=more))
    return True
