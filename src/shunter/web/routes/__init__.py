"""What each address of the page answers: one module per part of the page."""
