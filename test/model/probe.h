/*
 * probe.h - what the copy of the rules that probe.py makes tells and is told.
 */
#ifndef MODEL_PROBE_H
#define MODEL_PROBE_H

/* The point that is changed; 0: none. Numbers count from 1 in points.h. */
extern int opl_mutant;

/* Ways that were taken, numbered from 0 in points.h. */
extern unsigned char opl_branches[];

/* Changes the tables of state.c, after opl_mutant was set. */
extern void opl_mutate(void);

#define OPL_HERE(first, last) \
	__builtin_expect((unsigned) (opl_mutant - (first)) <= (unsigned) ((last) - (first)), 0)

/* `branch`: it was false; the next: it was true. */
static inline int
opl_saw(int branch, int value)
{
	opl_branches[branch + value] = 1;
	return value;
}

#endif
