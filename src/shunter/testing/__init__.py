"""What a third party needs to test against shunter: the slow reference and hypothesis strategies."""
