#!/bin/sh
# Prints the INSERTs of the shipped profiles: one row of op_profile per file.
set -eu
for file in "$@"; do
	name=$(basename "$file" .json)
	printf '\nINSERT INTO op_profile (name, spec) VALUES (%s, $profile$\n' "'$name'"
	cat "$file"
	printf '$profile$);\n'
done
