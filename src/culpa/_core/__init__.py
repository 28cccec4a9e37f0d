"""What every room uses: input checks, array types, missing cells, JSON values, files, threads."""
