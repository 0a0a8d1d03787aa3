"""The BMR scenario: rooms of NYU Depth v2 and drives of KITTI as robots of one fleet (fedepth spec 11)."""
