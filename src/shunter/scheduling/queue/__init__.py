"""Policies that keep their waiting jobs in an order: the queue, its memory, one decision."""
