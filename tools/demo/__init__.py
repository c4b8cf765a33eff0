"""What the bundled demo model is made of: a small world, stories, sums, a vocabulary and a training loop."""
