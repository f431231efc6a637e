"""What skills cost a model: scripted tasks, played with progressive disclosure and with everything in the prompt."""
