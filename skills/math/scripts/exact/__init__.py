"""The parts of the programs of this skill: numbers that are exact as long as they can be."""
