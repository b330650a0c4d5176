"""What a run looks like, as text: JUnit XML, Markdown, the console."""
