"""Installs the package and each of its extras, each alone, and tries what it gives.

Run: python scripts/try_extras.py [EXTRA ...] [--folder DIR]

The package is built as a source archive, that as a wheel, and the wheel is installed into an empty environment outside
the checkout. Each extra is tried on a copy of it: first its command without the extra, which must end with one line
that names it, then with it. pip gets ``requirements/lock.txt`` as constraints and, as folder of wheels,
``FED_PERCEPTION_WHEELS``.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from datetime import datetime, timezone
from pathlib import Path

from extra_trials import BASE, FILES, TRIALS, Command

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements/lock.txt"
SECONDS = 1800
#: What another environment in this shell would lead into ours, or out of it.
FOREIGN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "AMENT_PREFIX_PATH", "LD_LIBRARY_PATH", "FED_PERCEPTION_TOKEN")


class FailedError(Exception):
    """A command did not do what it must; the text is for people."""


class Environment:
    """A virtual environment and the folder where its commands run."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bin, self.work = folder, folder / "venv/bin", folder / "work"
        self.work.mkdir(parents=True, exist_ok=True)
        for name, text in FILES.items():
            (self.work / name).write_text(textwrap.dedent(text))

    def run(self, command: Command) -> subprocess.CompletedProcess[str]:
        """Run a command of the environment; the words ``{root}`` and ``{scripts}`` stand for folders."""
        words = [word.format(root=ROOT, scripts=ROOT / "scripts") if "{" in word else word for word in command]
        env = {name: value for name, value in os.environ.items() if name not in FOREIGN}
        env |= {"PATH": f"{self.bin}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
        return subprocess.run(  # noqa: S603
            [str(self.bin / words[0]), *words[1:]],
            cwd=self.work,
            env=env,
            text=True,
            capture_output=True,
            timeout=SECONDS,
        )

    def must(self, *command: str) -> str:
        """Run a command that has to end well; return what it printed."""
        print("   ", " ".join(command)[:150], flush=True)
        done = self.run(command)
        if done.returncode:
            raise FailedError(
                f"{' '.join(command)}\nended with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}"
            )
        return done.stdout

    def pip(self, *words: str) -> None:
        """Install with the locked versions; mmcv is never built."""
        wheels = os.environ.get("FED_PERCEPTION_WHEELS")
        found = ["--find-links", wheels] if wheels else []
        options = ["-q", "--disable-pip-version-check", "-c", str(LOCK), "--only-binary", "mmcv", *found]
        self.must("python", "-m", "pip", "install", *options, *words)

    def must_name(self, extra: str, command: Command) -> str:
        """Run a command that has to fail with one last line that names the extra; return that line."""
        print("   ", "without it:", " ".join(command)[:150], flush=True)
        done = self.run(command)
        lines = done.stderr.strip().splitlines() or [""]
        named = f"'fed_perception[{extra}]'" in lines[-1] or f"the extra '{extra}'" in lines[-1]
        traced = "Traceback" in done.stderr and command[0] == "fedperc"
        if not done.returncode or traced or not named:
            raise FailedError(
                f"{' '.join(command)}\nwithout {extra} ended with {done.returncode}:\n{done.stderr[-3000:]}"
            )
        return lines[-1]


def build(folder: Path) -> Path:
    """Return the wheel that is built of the source archive that is built of what git would commit."""
    source, out = folder / "source", folder / "dist"
    listed = subprocess.run(  # noqa: S603
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name)
    out.mkdir(exist_ok=True)
    tools = folder / "tools"
    subprocess.run([sys.executable, "-m", "venv", str(tools)], check=True)  # noqa: S603
    pip = [str(tools / "bin/python"), "-m", "pip", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "-c", str(LOCK), "setuptools", "wheel"], check=True)  # noqa: S603
    code = f"import setuptools.build_meta as b; b.build_sdist({str(out)!r})"
    subprocess.run([str(tools / "bin/python"), "-c", code], cwd=source, check=True, capture_output=True)  # noqa: S603
    subprocess.run([*pip, "wheel", "--no-deps", "-w", str(out), *map(str, out.glob("*.tar.gz"))], check=True)  # noqa: S603
    return next(out.glob("*.whl"))


def install_base(folder: Path, wheel: Path) -> Environment:
    """Return an environment that had nothing before, with the wheel and what it asks for."""
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)  # noqa: S603
    base = Environment(folder)
    base.pip(str(wheel))
    base.must("python", "-m", "pip", "check")
    return base


def copied(base: Environment, folder: Path, wheel: Path) -> Environment:
    """Return a copy of an environment; its ``fedperc`` is made anew, since such files hold the path of their Python."""
    shutil.copytree(base.folder / "venv", folder / "venv", symlinks=True)
    copy = Environment(folder)
    copy.pip("--no-deps", "--force-reinstall", str(wheel))
    return copy


def try_base(base: Environment) -> str:
    """Try what works without an extra."""
    for command in BASE:
        base.must(*command)
    return ""


def try_extra(extra: str, base: Environment, wheel: Path) -> str:
    """Try an extra on a copy of the base; return the line that its first command ends with where it is absent."""
    print(extra, flush=True)
    trial, env = TRIALS[extra], copied(base, base.folder.parent / extra, wheel)
    for command in trial.before:
        env.must(*command)
    told = env.must_name(extra, trial.needs[0]) if trial.needs else "nothing is refused"
    env.pip(f"{wheel}[{extra}]")
    for command in trial.needs or trial.before:
        env.must(*command)
    return told


def main() -> int:
    """Try what is asked for and print a table; 1 where anything failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("extras", nargs="*", metavar="EXTRA", help=f"base, {', '.join(TRIALS)}; default: all")
    parser.add_argument("--folder", type=Path, help="new folder for environments, which stay; default: a temporary one")
    options = parser.parse_args()
    for extra in set(options.extras) - {"base", *TRIALS}:
        parser.error(f"no extra is called {extra!r}; known: {', '.join(TRIALS)}")
    if options.folder and options.folder.exists():
        parser.error(f"{options.folder} exists; name a new folder")
    wanted = options.extras or ["base", *TRIALS]
    with tempfile.TemporaryDirectory() as temporary:
        rows = try_all(wanted, (options.folder or Path(temporary)).absolute(), keep=options.folder is not None)
    print(
        f"\n{datetime.now(timezone.utc):%Y-%m-%d}, Python {sys.version.split()[0]}\n\n| extra | result | without it |"
    )
    print("|---|---|---|")
    for extra, result, told in rows:
        print(f"| {extra} | {result} | {told} |")
    return int(any(result != "works" for _, result, _ in rows))


def try_all(wanted: list[str], folder: Path, keep: bool) -> list[tuple[str, str, str]]:
    """Return a row of the table for the base or an extra: name, result, line without it."""
    folder.mkdir(parents=True, exist_ok=True)
    wheel = build(folder)
    print("base", flush=True)
    base = install_base(folder / "base", wheel)
    rows = []
    for extra in wanted:
        try:
            told = try_base(base) if extra == "base" else try_extra(extra, base, wheel)
            rows.append((extra, "works", told))
        except (FailedError, subprocess.TimeoutExpired) as err:
            print(err, flush=True)
            rows.append((extra, "FAILS", str(err).splitlines()[0]))
        if not keep and extra != "base":
            shutil.rmtree(folder / extra)
    return rows


if __name__ == "__main__":
    sys.exit(main())
