"""A process that serves conversations (`SkillRuntime`), and one conversation (`SkillSession`)."""
