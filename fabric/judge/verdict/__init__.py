"""The verdict of a run, and the decisions during a run: who goes on, and what is measured again."""
