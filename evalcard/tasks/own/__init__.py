"""A file of questions as a task: columns, documents, and how answers are scored."""
