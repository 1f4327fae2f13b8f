"""Many runs: what a sweep file asks for, run on processes or a Dask cluster, kept as Parquet, ranked and drawn."""
