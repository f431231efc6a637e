"""OpenSkill inside other frameworks: one package for each, none imports another."""
