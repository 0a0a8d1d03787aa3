"""Write docs/errors.md from the code: exit codes, refusals, kinds of errors (``python -m scripts.write_errors``)."""

import ast
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from fed_cli.main import BAD_INPUT, STOPPED
from fed_core.errors import FedError, Refusal
from scripts.write_strategies import table

ROOT = Path(__file__).resolve().parents[1]
#: Folder -> root of its packages.
_PACKAGES = {"fed_core": ROOT, "fed_cli": ROOT, "fed_nodes": ROOT, "fed_flower": ROOT, "fed_models": ROOT / "models"}
_SERVICES = ROOT / "msgs" / "srv"

HEAD = """# Errors

Written by `scripts/write_errors.py` from the code. Messages that come often are in
[troubleshooting](troubleshooting.md), what went wrong for others in the [FAQ](faq.md).

An error is one line that says what is wrong, where, and what to do: `error: my_bag does not exist`. Commands write it
to stderr, nodes to stderr or their log. `fedperc --debug COMMAND` also shows its kind and where in the code it arose.
"""

REFUSED = """An aggregator that does not take a robot, a descriptor or an update answers with a number and a text. The
robot shows `refused (NAME): TEXT` as its state and in its log. One that was not taken asks again every 10 s, and sooner
when another run shows up: nothing has to be started anew once the cause is gone. In programs the numbers are
`fed_core.errors.Refusal`, and the constants of `fed_msgs/srv/RegisterRobot`.
"""
LIBRARY = """For programs that use the library: catch `fed_core.errors.FedError`, or one of its kinds. Each message says
what to do; the column here is for where you do not have the message.
"""

#: What to do about a refusal, by name.
REFUSALS = {
    "DUPLICATE_ROBOT": "give each robot its own `robot_id`; one that just ended is free after `liveness_s`",
    "WRONG_TASK": "set the same `task` on robot and aggregator",
    "WRONG_MODEL": "use the same network, options and version everywhere",
    "WRONG_VERSION": "install the same version of fed_perception everywhere",
    "NO_SAMPLES": "the robot recorded nothing; check its sensor topics",
    "WRONG_ENCODER": "use the same encoder and its same weights everywhere",
    "WRONG_ROUND": "the update came too late; nothing, or a longer `round_deadline_s`",
    "ALREADY_COUNTED": "nothing; the update was sent twice and counts once",
    "NOT_A_PARTICIPANT": "nothing; the robot is not in this round's plan and takes part in a later one",
    "NOT_FINITE": "training diverged; lower `lr`",
    "WRONG_TENSORS": "use the same version everywhere",
    "TOO_LARGE": "the update is over a bound of the aggregator; look at the robot's data and `lr`, or raise the bound",
    "BROKEN_BLOB": "nothing; the file arrived damaged, the robot sends it again",
    "UNKNOWN_ROBOT": "nothing; the robot has to register first and does so by itself",
    "BAD_NAME": "use letters, digits and `_` in the robot id, a letter first",
    "NOT_READY": "nothing; the robot asks again",
    "QUARANTINED": "mend why its updates were refused, then call the service `<fleet_ns>/readmit/<robot_id>`",
}

#: What to do about a kind of error that a message does not say better, by name of its class.
KINDS = {
    "CloudError": "look at the driver of the LiDAR; what is read is told under [clouds](live_detection.md#clouds)",
    "ConfigError": "change the option, parameter or line of the fleet file that the message names",
    "DataError": "look at the recording with `fedperc inspect PATH`",
    "DiskFullError": "free some space and start again; a robot goes on by itself",
    "EncodingError": "let the driver publish one of [these encodings](your_robot.md#encodings)",
    "EngineError": "start again; for Ray see [larger simulations](scale.md)",
    "ExportError": "export another format, or another network",
    "FolderInUseError": "end the other process, or wait until it has ended; give each process its own folder",
    "RefusedError": "see the refusals above",
    "RuntimeUnavailableError": "install what the message names, or choose the runtime `torch`",
    "StoreError": "give the folder to its owner, mend the disk, or use another folder",
    "StrategyError": "change the strategy's options (`fedperc strategies NAME`)",
    "StudyError": "mend what it names and start the same command again; it goes on",
    "TrainingError": "lower `lr` or `batch_size`; look at the samples",
    "UnitsError": "state `depth_unit` ([your recordings](your_recordings.md))",
    "UnknownNameError": "choose one of the names in the message; `--plugin` brings your own",
    "WireError": "install the same version on both ends; if it stays, the other end is no fed_perception",
}

_EXITS = (
    ("all", "0", "all is well, or it was told to stop and did (nodes: SIGINT, SIGTERM)"),
    ("`fedperc`", "1", "a check or a comparison failed, or a part was left out; what it wrote says which"),
    ("`fedperc`", str(BAD_INPUT), "bad input: the line on stderr says what to change"),
    ("`fedperc`", str(STOPPED), "you stopped it (Ctrl-C); most commands go on where they were when started again"),
    ("nodes", "1", "it failed while it ran, or the disk is full: a supervisor may start it again"),
    ("nodes", "2", "it cannot start as it is configured: starting it again does not help"),
)


def constants(service: str) -> list[tuple[str, int, str]]:
    """Return (name, number, comment) of the codes of a service; comments say what they mean."""
    text = (_SERVICES / f"{service}.srv").read_text(encoding="utf-8")
    found = re.findall(r"^uint16 ([A-Z_]+)=(\d+)(?:\s*#\s*(.*))?$", text, re.MULTILINE)
    return [(name, int(number), comment) for name, number, comment in found]


def kinds() -> Iterator[tuple[type[FedError], str]]:
    """Give every kind of error with its module, by name; modules are read first, so that only few are imported."""
    names = {"FedError"}
    places: dict[str, str] = {}
    while more := {name: where for name, bases, where in _classes() if bases & names and name not in names}:
        names |= set(more)
        places |= more
    for name in sorted(places):
        yield getattr(importlib.import_module(places[name]), name), places[name]


def _classes() -> Iterator[tuple[str, set[str], str]]:
    for package, root in _PACKAGES.items():
        for file in sorted((root / package).rglob("*.py")):
            text = file.read_text(encoding="utf-8")
            if "Error)" not in text:
                continue
            module = ".".join(file.relative_to(root).with_suffix("").parts)
            for node in ast.parse(text).body:
                if isinstance(node, ast.ClassDef):
                    yield node.name, {base.id for base in node.bases if isinstance(base, ast.Name)}, module


def _refusals() -> str:
    meanings = {name: comment for name, _, comment in constants("RegisterRobot")}
    rows = [
        (str(int(r)), f"`{r.name}`", meanings.get(r.name, "") or r.name.lower().replace("_", " "), REFUSALS[r.name])
        for r in Refusal
        if r is not Refusal.ACCEPTED
    ]
    return table(("number", "name", "meaning", "what to do"), rows)


def _kinds() -> str:
    rows = []
    for kind, module in kinds():
        base = kind.__bases__[0].__name__
        meaning = " ".join(str(kind.__doc__).split("\n\n")[0].replace("``", "`").split())
        rows.append((f"`{kind.__name__}`", f"`{base}`", meaning, KINDS[kind.__name__], f"`{module}`"))
    return table(("kind", "is a", "meaning", "what to do", "defined in"), rows)


def document() -> str:
    """Return the text of docs/errors.md."""
    blobs = [(str(number), f"`{name}`", text or "the bytes follow") for name, number, text in constants("ReadBlob")]
    parts = [
        HEAD,
        "## Exit codes\n",
        table(("program", "code", "meaning"), _EXITS),
        "## Refusals\n",
        REFUSED,
        _refusals(),
        "## Reading models\n",
        "Answers of `fed_msgs/srv/ReadBlob`, by which models and updates travel. Nodes ask again by themselves.\n",
        table(("number", "name", "meaning"), blobs),
        "## Kinds of errors\n",
        LIBRARY,
        _kinds(),
    ]
    return "\n".join(parts)


def main() -> int:
    """Write the file."""
    (ROOT / "docs" / "errors.md").write_text(document(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
