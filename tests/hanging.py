"""When a process counts as hanging: a net under broken tests, never a measure of speed."""

# Seconds: more than anything here takes on a machine that is busy with a dozen other things.
HANGING = 1800.0
