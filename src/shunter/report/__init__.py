"""What a run was like: numbers (``metrics``) and tables for people (``tables``)."""
