"""RLTune and its two rivals, run again: learned orders beside known ones with the same information."""
