"""What is kept around invocations: who may call, how many wait, what ran, what it was like."""
