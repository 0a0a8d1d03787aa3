"""What a robot keeps of its sensor topics."""
