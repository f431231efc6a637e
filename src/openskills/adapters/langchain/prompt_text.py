"""The section of the system prompt about skills."""

SKILLS_SYSTEM_PROMPT = """## Skills System

You have access to a skills library that provides specialized capabilities and domain knowledge.

{skills_locations}{skills_load_warnings}

**Available Skills:**

{skills_list}

**How to Use Skills (Progressive Disclosure):**

Skills follow a **progressive disclosure** pattern - you see their name and description above, but only read full \
instructions when needed:

1. **Recognize when a skill applies**: Check if the user's task matches a skill's description
2. **Load the skill**: Use `load_skill("skill-name")` to read full instructions and discover resources
3. **Follow the skill's instructions**: The loaded content contains step-by-step workflows, best practices, and examples
4. **Access supporting files**: Use the resource paths shown in the loaded skill output with `read_file`
5. **Unload when done**: Use `unload_skill("skill-name")` to free up a loading slot when a skill is no longer needed

**When to Use Skills:**

- User's request matches a skill's domain (e.g., "research X" -> web-research skill)
- You need specialized knowledge or structured workflows
- A skill provides proven patterns for complex tasks

Remember: Skills make you more capable and consistent. When in doubt, check if a skill exists for the task!"""
