#!/bin/sh
# Adds mmdet3d to the environment that scripts/setup.sh made. `make setup-detection` calls this; it may run again at any
# time. mmcv must come as a wheel: to build it takes half an hour, and none is published for this PyTorch.
#
# Variables: VENV (folder, default .venv), FED_PERCEPTION_WHEELS (folder with the wheel of mmcv, default
# ../shared/wheels beside the repository), IF_POSSIBLE (1: without a wheel say so and end well), and all of pip's own.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
venv=${VENV:-$root/.venv}
case $venv in /*) ;; *) venv=$PWD/$venv ;; esac
wheels=${FED_PERCEPTION_WHEELS:-$root/../shared/wheels}
stamp=$venv/.fed_perception/detection
unset PYTHONPATH PYTHONHOME VIRTUAL_ENV 2>/dev/null || true
export _ROS_WHEELS_BOOTSTRAP_COMPLETE=1 # pip needs no ROS, so no second start of the interpreter

fail() {
  echo "setup-detection: $*" >&2
  exit 1
}

pip_install() {
  # No dependencies: those of mmdet3d name another OpenCV and other PyTorch packages than ours.
  "$venv/bin/python" -m pip install -q --disable-pip-version-check --progress-bar off --no-deps --log "$venv/setup.log" \
    -c "$root/requirements/lock.txt" "$@" 2>"$venv/setup.err" ||
    fail "pip failed: $(grep -E '^ *ERROR' "$venv/setup.err" | tail -n 1 | cut -c1-300); the whole story is in $venv/setup.log"
}

[ -x "$venv/bin/python" ] || fail "there is no environment in $venv; run make setup first"
python_tag=$("$venv/bin/python" -c 'import sys; print("cp%d%d" % sys.version_info[:2])')
mmcv=$(sed -n 's/^mmcv==//p' "$root/requirements/detection.txt")
wheel=$(find "$wheels" -name "mmcv-$mmcv-$python_tag-*.whl" 2>/dev/null | LC_ALL=C sort | head -n 1)
if [ -z "$wheel" ]; then
  absent="no wheel mmcv-$mmcv-$python_tag-*.whl in $wheels"
  [ "${IF_POSSIBLE:-}" = 1 ] || fail "$absent; build one (docs/mmdet3d.md) and let FED_PERCEPTION_WHEELS name its folder"
  echo "setup-detection: skipped, $absent; tests of mmdet3d will be skipped, too"
  exit 0
fi

key="$(basename "$wheel") $(sha256sum "$root/requirements/detection.txt" | cut -c1-32)"
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$key" ]; then
  echo "setup-detection: $venv is up to date"
  exit 0
fi
pip_install "$wheel"
pip_install -r "$root/requirements/detection.txt"
unset _ROS_WHEELS_BOOTSTRAP_COMPLETE
"$venv/bin/python" -c 'import mmdet3d.models' 2>"$venv/setup.err" ||
  fail "mmdet3d does not start: $(tail -n 1 "$venv/setup.err" | cut -c1-300); was the wheel $wheel built for this PyTorch?"
mkdir -p "$(dirname "$stamp")"
echo "$key" >"$stamp"
echo "setup-detection: done; mmdet3d is in $venv"
