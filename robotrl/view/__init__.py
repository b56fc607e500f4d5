"""What a person looks at: Rerun recordings and their blueprint, the report of a run, and videos."""
