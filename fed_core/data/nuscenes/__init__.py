"""nuScenes folders, recorded or generated: six cameras, a LiDAR and 3D boxes, in the tables of the devkit."""
