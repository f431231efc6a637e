"""OpenSkill."""
