/* grid.h - the scenarios, as lines that scenario_parse() reads. */
#ifndef MODEL_GRID_H
#define MODEL_GRID_H

/* Prints a grid by name; 2 if there is no such grid. */
extern int grid_print(const char *name);

#endif
