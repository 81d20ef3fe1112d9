/*
 * command.c - around what is read and written row by row.
 */
#include "postgres.h"

#include "store/command.h"

Command
command_begin_as(bool snapshot_of_caller)
{
	Command command = {MemoryContextSwitchTo(rows_context()), rows_state()};

	tuples_begin(snapshot_of_caller);
	return command;
}

Command
command_begin(void)
{
	return command_begin_as(false);
}

void
command_end(const Command *command)
{
	tuples_end();
	rows_back_to(command->state);
	MemoryContextSwitchTo(command->before);
}

Tuples *
command_open(const Shape *shape, TuplesTo to)
{
	return tuples_open(rows_schema(), shape, to);
}
