"""``metadata.yaml`` of a rosbag2 folder with several MCAP files, built from the files themselves."""

from collections.abc import Sequence

import yaml

from fed_core.data.frame_files import TOPICS, FrameFile, typestore


def metadata_text(files: Sequence[FrameFile]) -> str:
    """Return the text of ``metadata.yaml`` (version 9) for files with at least one frame each, in their order."""
    counts = [len(file) for file in files]
    first = min(int(file.stamps_ns.min()) for file in files)
    last = max(int(file.stamps_ns.max()) for file in files)
    tree = {
        "version": 9,
        "storage_identifier": "mcap",
        "duration": {"nanoseconds": last - first},
        "starting_time": {"nanoseconds_since_epoch": first},
        "message_count": len(TOPICS) * sum(counts),
        "topics_with_message_count": [
            {
                "topic_metadata": {
                    "name": topic,
                    "type": kind,
                    "serialization_format": "cdr",
                    "offered_qos_profiles": [],
                    "type_description_hash": typestore().hash_rihs01(kind),
                },
                "message_count": sum(counts),
            }
            for topic, kind in TOPICS
        ],
        "compression_format": "",
        "compression_mode": "",
        "relative_file_paths": [file.path.name for file in files],
        "files": [_entry(file) for file in files],
        "custom_data": None,
        "ros_distro": "rosbags",
    }
    return yaml.safe_dump({"rosbag2_bagfile_information": tree}, sort_keys=False)


def _entry(file: FrameFile) -> dict[str, object]:
    first, last = int(file.stamps_ns.min()), int(file.stamps_ns.max())
    return {
        "path": file.path.name,
        "starting_time": {"nanoseconds_since_epoch": first},
        "duration": {"nanoseconds": last - first},
        "message_count": len(TOPICS) * len(file),
    }
