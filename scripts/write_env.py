"""Write the files that make this virtual environment a ROS 2 prefix, with and without activation.

- ``local_setup.*`` and ``setup.*`` in its root: colcon chains them into the set-up files of a workspace built on it;
- the activation scripts source them, and ``deactivate`` puts the old values back;
- a ``.pth`` file sets what a program needs that is started without activation (``.venv/bin/fedperc``, cron, systemd);
- ``lib/fed_perception/``: links to the programs, where ``ros2 run`` and launch files look for them.

Run by ``scripts/setup.sh`` with the interpreter of the environment. Running it again changes nothing.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PREFIX = Path(sys.prefix)
SITE = PREFIX / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
MARK = "# fed_perception: ROS 2"
PLAIN = {"ROS_DISTRO": "kilted", "ROS_VERSION": "2", "ROS_PYTHON_VERSION": "3", "_ROS_WHEELS_BOOTSTRAP_COMPLETE": "1"}


def search_paths() -> dict[str, list[str]]:
    """Return the search paths that this prefix adds to."""
    libraries = [PREFIX / "lib", *sorted(SITE.glob("ros_*.libs"))]
    return {
        "AMENT_PREFIX_PATH": [str(PREFIX)],
        "CMAKE_PREFIX_PATH": [str(PREFIX)],
        "LD_LIBRARY_PATH": [str(path) for path in libraries],
    }


def local_setup(shell: str) -> str:
    """Return a set-up file for sh, bash and zsh; sourced twice it adds nothing twice."""
    lines = [f"{MARK} wheels as an installed distribution; written by make setup for {shell}."]
    paths = search_paths() | {"PATH": [str(PREFIX / "bin")]}
    for name, folders in paths.items():
        value = ":".join(folders)
        lines.append(f'case ":${{{name}:-}}:" in *":{folders[0]}:"*) ;;')
        lines.append(f'*) export {name}="{value}${{{name}:+:${name}}}" ;; esac')
    lines += [f"export {name}={value}" for name, value in PLAIN.items()]
    # Workspaces built on the wheels need these CMake arguments; a defaults file of the user's own wins.
    lines.append(f'export COLCON_DEFAULTS_FILE="${{COLCON_DEFAULTS_FILE:-{PREFIX / "colcon_defaults.yaml"}}}"')
    return "\n".join(lines) + "\n"


def colcon_defaults() -> str:
    """Return what `colcon build` must pass to CMake on top of the wheels."""
    arguments = [
        f"-DPython3_EXECUTABLE={PREFIX / 'bin/python'}",
        "-DPython3_FIND_VIRTUALENV=ONLY",
        f"-DCMAKE_PROJECT_INCLUDE={PREFIX / 'wheel_includes.cmake'}",
    ]
    return "build:\n  cmake-args:\n" + "".join(f'    - "{argument}"\n' for argument in arguments)


SAVED = ("AMENT_PREFIX_PATH", "CMAKE_PREFIX_PATH", "LD_LIBRARY_PATH", "COLCON_DEFAULTS_FILE", *PLAIN)


def patch_activate() -> None:
    """Make `activate` (sh, bash, zsh) source the set-up file and `deactivate` undo it."""
    script = PREFIX / "bin/activate"
    text = script.read_text()
    if MARK in text:
        return
    restore = [f'    if [ -n "${{_FED_SAVED:-}}" ] ; then  {MARK}']
    for name in SAVED:
        old = f"_FED_OLD_{name}"
        restore.append(f'        if [ -n "${{{old}:-}}" ] ; then export {name}="${old}" ; else unset {name} ; fi')
        restore.append(f"        unset {old}")
    restore += ["        unset _FED_SAVED", "    fi"]
    text, count = re.subn(r"(?m)^(deactivate *\(\) *\{)$", "\\1\n" + "\n".join(restore).replace("\\", r"\\"), text)
    if count != 1:
        raise SystemExit(f"setup: {script} has no deactivate function; remove {PREFIX} and run it again")
    save = [f'_FED_OLD_{name}="${{{name}:-}}"' for name in SAVED]
    text += "\n".join(["", MARK, *save, "_FED_SAVED=1", f'. "{PREFIX / "local_setup.sh"}"', ""])
    script.write_text(text)


def patch_activate_fish() -> None:
    """Make `activate.fish` set the same variables and its `deactivate` undo it."""
    script = PREFIX / "bin/activate.fish"
    if not script.exists() or MARK in script.read_text():
        return
    lines = ["", MARK, *(f"set -g _FED_OLD_{name} ${name}" for name in SAVED)]
    for name, folders in search_paths().items():
        lines.append(f'if not contains -- "{folders[0]}" (string split : -- "${name}")')
        lines.append(f'    set -gx {name} (string join : -- {" ".join(folders)} (string split -n : -- "${name}"))')
        lines.append("end")
    lines += [f"set -gx {name} {value}" for name, value in PLAIN.items()]
    lines.append(f"set -q COLCON_DEFAULTS_FILE; or set -gx COLCON_DEFAULTS_FILE {PREFIX / 'colcon_defaults.yaml'}")
    lines += ["functions -e _fed_deactivate", "functions -c deactivate _fed_deactivate", "function deactivate"]
    for name in SAVED:
        old = f"_FED_OLD_{name}"
        lines.append(f'    if test -n "${old}"; set -gx {name} ${old}; else; set -e {name}; end; set -e {old}')
    lines += ["    _fed_deactivate $argv", "end"]
    script.write_text(script.read_text() + "\n".join(lines) + "\n")


STARTUP = '''"""Let every program of this environment find ROS 2 without activation; written by make setup."""

import os
import sys

if os.environ.get("_ROS_WHEELS_BOOTSTRAP_COMPLETE"):
    _paths = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    if os.path.join(sys.prefix, "lib") not in _paths:
        # The guard comes from a program of another environment: its libraries are not ours.
        _paths = [p for p in _paths if p and not p.endswith(".libs")]
        _paths = [p for p in _paths if not os.path.exists(os.path.join(p, "librcl.so"))]
        os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(_paths)
        del os.environ["_ROS_WHEELS_BOOTSTRAP_COMPLETE"]
_prefixes = os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)
if sys.prefix not in _prefixes:
    os.environ["AMENT_PREFIX_PATH"] = os.pathsep.join([p for p in _prefixes if p] + [sys.prefix])
os.environ.setdefault("ROS_DISTRO", "kilted")
'''


def write_startup() -> None:
    """Write the .pth file; its name sorts before that of the wheels' own, which starts the interpreter again."""
    (SITE / "fed_perception_environment.py").write_text(STARTUP)
    (SITE / "fed_perception_environment.pth").write_text("import fed_perception_environment\n")


def link_programs() -> None:
    """Link the programs into lib/fed_perception, where ROS looks for the executables of a package."""
    folder = PREFIX / "lib/fed_perception"
    folder.mkdir(exist_ok=True)
    for name in re.findall(r'"(\w+) = fed_\w+\.\w+:main"', (ROOT / "setup.py").read_text()):
        link = folder / name
        if not link.is_symlink():
            link.symlink_to(PREFIX / "bin" / name)


def main() -> None:
    """Write everything."""
    for shell in ("sh", "bash", "zsh"):
        (PREFIX / f"local_setup.{shell}").write_text(local_setup(shell))
        (PREFIX / f"setup.{shell}").write_text(f'. "{PREFIX / "local_setup.sh"}"\n')
    (PREFIX / "colcon_defaults.yaml").write_text(colcon_defaults())
    (PREFIX / "wheel_includes.cmake").write_text((ROOT / "scripts/wheel_includes.cmake").read_text())
    (PREFIX / "COLCON_IGNORE").touch()
    patch_activate()
    patch_activate_fish()
    write_startup()
    link_programs()


if __name__ == "__main__":
    main()
