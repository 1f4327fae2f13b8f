"""What policies share, compiled: queues, leases, backfilling, placing, estimates, and the reasons why jobs wait."""
