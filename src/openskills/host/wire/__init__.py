"""HTTP as bytes: strict reading, answers that are always results, connections that cannot starve others."""
