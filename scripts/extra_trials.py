"""What each extra of ``setup.py`` gives, as commands: real fleets on small rendered data, for ``try_extras.py``."""

from dataclasses import dataclass

Command = tuple[str, ...]

#: Files that the commands read, by name.
FILES = {
    "depth.yaml": """
        run: depth
        network: {name: newcrfs_tiny, options: {height: 64, width: 64, window: 4}}
        strategy: {name: fedavg}
        rounds: 1
        train: {batch_size: 2}
        robots:
          - {id: drone, source: {generated: {platform: uav, environment: forest, frames: 2, width: 64, height: 64}}}
    """,
    "depth_b5.yaml": """
        run: depth_b5
        network: {name: adabins_b5, options: {height: 384, width: 640}}
        strategy: {name: fedavg}
        rounds: 1
        train: {batch_size: 2}
        robots:
          - {id: drone, source: {generated: {platform: uav, environment: forest, frames: 2, width: 64, height: 64}}}
    """,
    "bev.yaml": """
        run: bev
        task: bev
        network: {name: fax_tiny}
        strategy: {name: feddwa}
        rounds: 1
        traffic: {seed: 1, frames: 8, test_frames: 2, width: 96, height: 72, min_visible_px: 6}
        robots:
          - {id: bus, source: {data: traffic/train/client_1}}
          - {id: car, source: {data: traffic/train/client_3}}
    """,
    "boxes.yaml": """
        run: boxes
        task: detection
        network: {name: cmt_tiny}
        strategy: {name: fedavg}
        rounds: 1
        robots:
          - id: A
            source:
              data: nuscenes
              options: {domain: boston_day_clear, split: train, cameras: [CAM_FRONT, CAM_BACK]}
    """,
    "pillars.yaml": """
        run: pillars
        task: detection
        network: {name: mmdet3d, options: {config: pillars.py}}
        strategy: {name: fedavg}
        rounds: 1
        train: {batch_size: 2}
        robots:
          - {id: A, source: {data: nuscenes, options: {domain: boston_day_clear, split: train, cameras: [CAM_FRONT]}}}
    """,
    "pillars.py": """
        _base_ = "mmdet3d::_base_/models/pointpillars_hv_secfpn_kitti.py"
        class_names = ["Pedestrian", "Cyclist", "Car"]
    """,
    "none.json": '{"results": {"nothing": []}}',
}

NUSCENES: Command = ("fedperc", "generate", "detection", "--out", "nuscenes", "--domains", "A", "--keyframes", "2")
NUSCENES += ("--train-scenes", "1,1,1,1,1", "--val-scenes", "1,1,1,1,1", "--width", "96", "--height", "48")


@dataclass(frozen=True)
class Trial:
    """What shows that an extra works.

    Attributes:
        needs: commands that need it; without it the first ends with one line that names it.
        before: commands that need no extra, run before it is installed.
    """

    needs: tuple[Command, ...]
    before: tuple[Command, ...] = ()


SIMULATED: Command = ("fedperc", "simulate", "--rounds", "1", "--out", "run")

#: What works without an extra: README, "Without ROS".
BASE: tuple[Command, ...] = (
    ("fedperc", "--help"),
    ("fedperc", "strategies"),
    ("fedperc", "strategies", "fedepth"),
    SIMULATED,
    ("fedperc", "inspect", "run"),
    ("fedperc", "export", "run", "--format", "torchscript", "--out", "exported"),
    ("fedperc", "new", "strategy", "mine"),
    ("fedperc", "simulate", "--plugin", "mine.py", "--strategy", "mine", "--rounds", "1", "--out", "run_mine"),
    NUSCENES,
)

TRIALS: dict[str, Trial] = {
    "depth": Trial(
        needs=(
            ("fedperc", "simulate", "--fleet", "depth.yaml", "--out", "run_depth"),
            ("fedperc", "simulate", "--fleet", "depth_b5.yaml", "--out", "run_b5"),
            ("python", "-c", "import h5py"),
        )
    ),
    # Nothing beyond the base is needed, so nothing is refused without it.
    "bev": Trial(needs=(), before=(("fedperc", "simulate", "--fleet", "bev.yaml", "--out", "run_bev"),)),
    "nuscenes": Trial(
        before=(NUSCENES,),
        needs=(
            ("fedperc", "simulate", "--fleet", "boxes.yaml", "--out", "run_boxes"),
            ("python", "-I", "{scripts}/extra_smokes.py", "nuscenes"),
        ),
    ),
    "detection": Trial(
        before=(NUSCENES,), needs=(("fedperc", "simulate", "--fleet", "pillars.yaml", "--out", "run_pillars"),)
    ),
    "onnx": Trial(
        before=(SIMULATED,),
        needs=(
            ("fedperc", "export", "run", "--format", "onnx", "--out", "exported"),
            ("python", "-I", "{scripts}/extra_smokes.py", "onnx"),
        ),
    ),
    "flower": Trial(
        needs=(
            ("python", "-c", "import fed_flower"),
            ("python", "{root}/examples/flower_app/fedcka_app.py", "run_flower"),
            ("fedperc", "inspect", "run_flower"),
        )
    ),
    "ray": Trial(
        needs=(("fedperc", "simulate", "--engine", "ray", "--workers", "2", "--rounds", "1", "--out", "run_ray"),)
    ),
    "report": Trial(before=(SIMULATED,), needs=(("fedperc", "report", "run", "--out", "report.html"),)),
    "dashboard": Trial(before=(SIMULATED,), needs=(("python", "-I", "{scripts}/extra_smokes.py", "dashboard"),)),
}
