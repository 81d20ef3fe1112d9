/*
 * command.h - around what is read and written row by row.
 *
 * What is read goes where the results of statements go; and a trigger of the user's
 * that a row fires may call us.
 */
#ifndef OPL_COMMAND_H
#define OPL_COMMAND_H

#include "store/rows.h"
#include "store/tuples.h"

typedef struct Command
{
	MemoryContext before;
	RowsState     state;
} Command;

extern Command command_begin(void);
extern Command command_begin_as(bool snapshot_of_caller);
extern void    command_end(const Command *command);

/* A table of the ledger, as tuples_open(). */
extern Tuples *command_open(const Shape *shape, TuplesTo to);

#endif
