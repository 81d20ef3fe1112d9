/*
 * by_op_id.h - arrays in the order of op ids: of texts, or of structs that begin with
 * one.
 */
#ifndef OPL_BY_OP_ID_H
#define OPL_BY_OP_ID_H

#include "postgres.h"

extern void by_op_id_sort(void *rows, int n, size_t size);
/* NULL: it is not among them. They are sorted. */
extern void *by_op_id_find(void *rows, int n, size_t size, const char *op_id);

#endif
