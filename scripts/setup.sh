#!/bin/sh
# Makes the virtual environment with ROS 2, fed_msgs and fed_perception in it. `make setup` calls this; it may run
# again at any time and does only what is missing.
#
# Variables: PYTHON (interpreter to use), VENV (folder, default .venv), XDG_CACHE_HOME (where the built fed_msgs is
# kept), FED_SETUP_TIMEOUT (seconds to wait for the package index), and all of pip's own.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
venv=${VENV:-$root/.venv}
case $venv in /*) ;; *) venv=$PWD/$venv ;; esac
stamps=$venv/.fed_perception
log=$venv/setup.log

# Another ROS or virtual environment in this shell must not leak into the build.
unset _ROS_WHEELS_BOOTSTRAP_COMPLETE LD_LIBRARY_PATH AMENT_PREFIX_PATH CMAKE_PREFIX_PATH COLCON_PREFIX_PATH \
  PYTHONPATH PYTHONHOME VIRTUAL_ENV ROS_DISTRO COLCON_DEFAULTS_FILE 2>/dev/null || true

fail() {
  echo "setup: $*" >&2
  exit 1
}

step() { echo "[$1/6] $2"; }

version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || echo none; }

supported() { case $1 in 3.10 | 3.11 | 3.12) return 0 ;; *) return 1 ;; esac; }

check_machine() {
  [ "$(uname -s) $(uname -m)" = "Linux x86_64" ] ||
    fail "ROS 2 comes as wheels for Linux x86_64 only, this is $(uname -s) $(uname -m); install ROS 2 Jazzy or Kilted" \
      "on it and build ros2_ws with colcon (README, 'On an installed ROS 2')"
}

# Prints the interpreter to use: PYTHON alone if set, else the venv's own, else the first supported one on PATH.
choose_python() {
  if [ -n "${PYTHON:-}" ]; then
    found=$(version_of "$PYTHON")
    supported "$found" ||
      fail "PYTHON=$PYTHON is version $found; Python 3.10, 3.11 or 3.12 is needed, set PYTHON to one of them"
    echo "$PYTHON"
    return
  fi
  for candidate in "$venv/bin/python" python3.11 python3.12 python3.10 python3 python; do
    if supported "$(version_of "$candidate")"; then
      echo "$candidate"
      return
    fi
  done
  fail "no Python 3.10, 3.11 or 3.12 on PATH (python3 is $(version_of python3)); install one or set PYTHON=/path/to/python3.11"
}

check_build_tools() {
  if [ -n "${CXX:-}" ]; then
    command -v "${CXX%% *}" >/dev/null 2>&1 || fail "CXX=$CXX is not on PATH; set CXX to your C++ compiler"
  elif ! { command -v c++ || command -v g++ || command -v clang++; } >/dev/null 2>&1; then
    fail "no C++ compiler on PATH and fed_msgs must be built; install one (Debian, Ubuntu: apt install build-essential)"
  fi
  "$1" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_paths()["include"] + "/Python.h"))' ||
    fail "the headers of Python $2 are missing and fed_msgs must be built; install them (Debian, Ubuntu: apt install python$2-dev)"
}

make_venv() {
  if [ "$(version_of "$venv/bin/python")" = "$2" ] && "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    return
  fi
  "$1" -c 'import venv, ensurepip' 2>/dev/null ||
    fail "Python $2 has no venv module; install it (Debian, Ubuntu: apt install python$2-venv)"
  step 1 "virtual environment in $venv (Python $2)"
  "$1" -m venv --clear "$venv" >/dev/null 2>&1 || fail "cannot make a virtual environment in $venv; check space and rights there"
}

pip_install() {
  # pip's chatter goes to the log; its last error becomes our one line.
  "$venv/bin/python" -m pip install --disable-pip-version-check --log "$log" -c "$root/requirements/lock.txt" "$@" 2>"$venv/setup.err" || {
    fail "pip failed: $(grep -E '^ *ERROR' "$venv/setup.err" | tail -n 1 | cut -c1-300); the whole story is in $log"
  }
}

check_index() {
  probe=$(grep -h '^ros-wheels-bootstrapper==' "$root/requirements/ros.txt")
  "$venv/bin/python" -m pip download --disable-pip-version-check -q --no-deps --no-cache-dir --retries 1 \
    --timeout "${FED_SETUP_TIMEOUT:-15}" -d "$venv/probe" "$probe" >"$venv/setup.err" 2>&1 ||
    fail "no package index answers for $probe; check the network, the proxy and pip's settings (PIP_INDEX_URL), then run it again"
  rm -r "$venv/probe"
}

install_packages() {
  export _ROS_WHEELS_BOOTSTRAP_COMPLETE=1 # pip and the build tools need no ROS, so no second start of each interpreter
  check_index
  echo "      downloads: ROS 2 50 MB, other packages 310 MB, PyTorch 190 MB (CPU build) or about 3 GB (the CUDA build that"
  echo "      the public index serves; for the CPU build let PIP_INDEX_URL, PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS name"
  echo "      PyTorch's CPU index). What pip has in its cache is not loaded again."
  step 2 "PyTorch"
  pip_install -q --progress-bar off setuptools wheel
  # Not quiet: this is the large one, and its progress should be seen.
  pip_install "$(grep -h '^torch==' "$root/requirements/runtime.txt")"
  step 3 "ROS 2 and the other packages"
  pip_install -q --progress-bar off --no-build-isolation -r "$root/requirements/runtime.txt" -r "$root/requirements/ros.txt" -r "$root/requirements/dev.txt"
  command -v cmake >/dev/null 2>&1 || [ -x "$venv/bin/cmake" ] || pip_install -q cmake
}

hash_of() {
  (cd "$root" && find "$@" -type f ! -name '*.pyc' 2>/dev/null | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -c1-32)
}

# A new top-level package must be made known to the interpreter; a new module in one is found at once.
top_packages() { (cd "$root" && ls -d fed_*/__init__.py models/*/__init__.py 2>/dev/null | tr '\n' ' '); }

current() { [ -f "$stamps/$1" ] && [ "$(cat "$stamps/$1")" = "$2" ]; }

check_machine
python=$(choose_python)
version=$(version_of "$python")
packages_key="$version $(hash_of requirements)"
messages_key="$packages_key $(hash_of msgs scripts/build_msgs.py scripts/wheel_includes.cmake)"
project_key="$packages_key $root $(top_packages)$(hash_of setup.py setup.cfg package.xml pyproject.toml resource launch config)"
environment_key="$packages_key $(hash_of scripts/write_env.py scripts/wheel_includes.cmake setup.py)"

if [ "$(version_of "$venv/bin/python")" = "$version" ] && current packages "$packages_key" &&
  current messages "$messages_key" && current project "$project_key" && current environment "$environment_key"; then
  echo "setup: $venv is up to date"
  exit 0
fi

"$python" "$root/scripts/build_msgs.py" --cached || check_build_tools "$python" "$version"
make_venv "$python" "$version"
mkdir -p "$stamps"
current packages "$packages_key" || install_packages
echo "$packages_key" >"$stamps/packages"
export _ROS_WHEELS_BOOTSTRAP_COMPLETE=1

if ! current messages "$messages_key"; then
  step 4 "fed_msgs"
  "$venv/bin/python" "$root/scripts/build_msgs.py" || exit 1
  echo "$messages_key" >"$stamps/messages"
fi
if ! current project "$project_key"; then
  step 5 "fed_perception"
  pip_install -q --no-deps --no-build-isolation -e "$root"
  echo "$project_key" >"$stamps/project"
fi
step 6 "environment for any shell"
"$venv/bin/python" "$root/scripts/write_env.py" || fail "cannot write the environment files into $venv"
unset _ROS_WHEELS_BOOTSTRAP_COMPLETE
"$venv/bin/python" -c 'import rclpy, fed_msgs.msg' 2>"$venv/setup.err" ||
  fail "ROS 2 does not start: $(tail -n 1 "$venv/setup.err"); remove $venv and run it again"
echo "$environment_key" >"$stamps/environment"
echo "setup: done; activate it with '. $venv/bin/activate', check it with 'fedperc doctor'"
