"""Build fed_msgs once and keep it as a wheel, so that a fresh virtual environment gets it in a second.

The wheel lies in ``${XDG_CACHE_HOME:-~/.cache}/fed_perception``, named by everything that decides its bytes: interface
files, pinned ROS versions, Python version. Run by ``scripts/setup.sh`` with the interpreter of the environment;
``--cached`` only answers by its exit code whether the wheel is there.
"""

import base64
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
TAG = f"cp{sys.version_info[0]}{sys.version_info[1]}"
#: Files of the merged install space that are colcon's own.
NOT_OURS = ("local_setup.", "setup.", "_local_setup", ".colcon", "COLCON_IGNORE")
#: What fed_msgs links against; other packages do not change its bytes.
PINS = ("ros-", "numpy", "empy", "colcon-")


def cache_key() -> str:
    """Return a name for the bytes of the wheel: changes with the interfaces, the pinned versions and Python."""
    digest = hashlib.sha256(f"{TAG} {platform.machine()}".encode())
    sources = [p for p in sorted((ROOT / "msgs").rglob("*")) if p.is_file()]
    for path in [*sources, ROOT / "scripts/wheel_includes.cmake", Path(__file__)]:
        digest.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    pins = (ROOT / "requirements/lock.txt").read_text().splitlines()
    digest.update("\n".join(line for line in pins if line.lower().startswith(PINS)).encode())
    return digest.hexdigest()[:20]


def version() -> str:
    """Return the version in the manifest of fed_msgs."""
    return ElementTree.parse(ROOT / "msgs/package.xml").getroot().findtext("version", "")  # noqa: S314


def cached_wheel() -> Path:
    """Return where the wheel of the present sources lies or will lie."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "fed_perception" / cache_key() / f"fed_msgs-{version()}-{TAG}-{TAG}-linux_x86_64.whl"


def build(work: Path) -> Path:
    """Run colcon in ``work`` and return the install space."""
    prefix = Path(sys.prefix)
    env = dict(os.environ, AMENT_PREFIX_PATH=str(prefix), CMAKE_PREFIX_PATH=str(prefix), COLCON_HOME=str(work))
    libraries = [prefix / "lib", *sorted(prefix.glob("lib/python3*/site-packages/ros_*.libs"))]
    env["LD_LIBRARY_PATH"] = os.pathsep.join(map(str, libraries))
    env["PATH"] = f"{prefix / 'bin'}{os.pathsep}{env['PATH']}"
    env["_ROS_WHEELS_BOOTSTRAP_COMPLETE"] = "1"
    command = [sys.executable, "-m", "colcon", "--log-base", str(work / "log"), "build", "--merge-install"]
    command += ["--base-paths", str(ROOT / "msgs"), "--build-base", str(work / "build")]
    command += ["--install-base", str(work / "install"), "--cmake-args", f"-DPython3_EXECUTABLE={sys.executable}"]
    command += ["-DPython3_FIND_VIRTUALENV=ONLY", f"-DCMAKE_PROJECT_INCLUDE={ROOT / 'scripts/wheel_includes.cmake'}"]
    command += ["-DBUILD_TESTING=OFF"]
    log = prefix / "build_msgs.log"
    with log.open("w") as output:
        code = subprocess.run(command, env=env, stdout=output, stderr=output, cwd=work, check=False).returncode  # noqa: S603
    if code:
        raise SystemExit(f"setup: building fed_msgs failed; the compiler's words are in {log}")
    return work / "install"


def archive_name(path: Path, site: str) -> str | None:
    """Return where a file of the install space goes in the wheel; None for files that are colcon's own."""
    text = path.as_posix()
    if text.startswith(site):
        return None if ".egg-info" in text else text.removeprefix(site)
    colcon_hook = "/hook/" in text or text.startswith(("share/colcon-core", "share/fed_msgs/package."))
    if colcon_hook and not text.endswith("package.xml"):
        return None
    if "/" not in text and text.startswith(NOT_OURS):
        return None
    return f"fed_msgs-{version()}.data/data/{text}"


def pack(install: Path, wheel: Path) -> None:
    """Write the install space as a wheel: Python modules at its root, lib, share and include as data files."""
    site = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages/"
    info = f"fed_msgs-{version()}.dist-info"
    entries = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: fed_msgs\nVersion: {version()}\n".encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {TAG}-{TAG}-linux_x86_64\n".encode(),
    }
    for path in sorted(p for p in install.rglob("*") if p.is_file()):
        name = archive_name(path.relative_to(install), site)
        if name and "__pycache__" not in name:
            entries[name] = path.read_bytes()
    record = [f"{name},sha256={_digest(data)},{len(data)}" for name, data in entries.items()]
    entries[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    wheel.parent.mkdir(parents=True, exist_ok=True)
    # Written beside and renamed: a second set-up at the same time never sees half a wheel.
    with tempfile.NamedTemporaryFile(dir=wheel.parent, suffix=".part", delete=False) as part:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in entries.items():
                archive.writestr(name, data)
    os.chmod(part.name, 0o644)
    os.replace(part.name, wheel)


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def main() -> None:
    """Install fed_msgs into this interpreter's environment, building it only when no wheel of it is kept."""
    wheel = cached_wheel()
    if "--cached" in sys.argv[1:]:
        raise SystemExit(0 if wheel.is_file() else 1)
    if not wheel.is_file():
        print("      building it, about a minute (only once for these messages)")
        work = Path(tempfile.mkdtemp(prefix="fed_msgs-"))
        try:
            pack(build(work), wheel)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-index", "--no-deps"]
    if subprocess.run([*command, "--force-reinstall", str(wheel)], check=False).returncode:  # noqa: S603
        raise SystemExit(f"setup: pip cannot install {wheel}; remove that file and run it again")


if __name__ == "__main__":
    main()
