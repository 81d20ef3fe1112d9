/*
 * by_op_id.c - arrays in the order of op ids.
 */
#include "postgres.h"

#include "base/by_op_id.h"

static int
compare(const void *a, const void *b)
{
	return strcmp(*(char *const *) a, *(char *const *) b);
}

static bool is_sorted(const char *rows, int n, size_t size) pg_attribute_unused();

static bool
is_sorted(const char *rows, int n, size_t size)
{
	for (int i = 1; i < n; i++)
	{
		if (compare(rows + (i - 1) * size, rows + i * size) > 0)
			return false;
	}
	return true;
}

void
by_op_id_sort(void *rows, int n, size_t size)
{
	if (n > 1)
		qsort(rows, n, size, compare);
}

void *
by_op_id_find(void *rows, int n, size_t size, const char *op_id)
{
	Assert(is_sorted(rows, n, size));
	return n == 0 ? NULL : bsearch(&op_id, rows, n, size, compare);
}
