"""OPV2V and FedBEVT folders: the cameras of vehicles in CARLA, with masks of what is around them."""
