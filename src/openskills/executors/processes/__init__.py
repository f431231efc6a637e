"""Commands that run: started, captured, talked to, ended."""
