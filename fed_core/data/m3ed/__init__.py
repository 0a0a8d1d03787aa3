"""M3ED: recordings of a car, a drone and a legged robot, with colour images and LiDAR depth (https://m3ed.io).

:func:`fed_core.data.m3ed.sequence.open_m3ed` opens one, :func:`fed_core.data.m3ed.split.load_split` says which of them
train and which test. The schema of the files and its traps are in ``docs/m3ed.md``.
"""
