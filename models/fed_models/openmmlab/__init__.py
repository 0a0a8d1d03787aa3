"""What stands between the detectors of mmdet3d and ours: the libraries, configs, boxes and checkpoints."""
