/*
 * judge.h - how the promises of a spec are written for _op_decide().
 *
 * For test/windows, which writes them out again.
 */
#ifndef OPL_JUDGE_H
#define OPL_JUDGE_H

#include "spec/fields.h"

/* One row per member of OplPromises; the last has no path. */
extern const Field judge_promises[];

#endif
