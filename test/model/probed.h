/*
 * probed.h - the rules as probe.py copies them, seen from the programs: which ways were
 * taken, and what each mutant does. In a program with the shipped files there are none.
 */
#ifndef MODEL_PROBED_H
#define MODEL_PROBED_H

#include <string>
#include <vector>

extern "C" {
#include "rules/decide.h"
}

/* The ways that were taken since the last call: branches by name, arrows, and what
 * evidence met which state. */
extern std::vector<std::string> probed_ways();

/* All that could be taken: every branch, every arrow, and every row of the table and of
 * the door that can come about. */
extern std::vector<std::string> probed_all_ways();

/* Evidence meets an operation; a decision takes an arrow. */
extern void probed_evidence(const OplOperation &op, const OplFinding &f);
extern void probed_arrow(OplState from, OplState to);

/* Prints for each mutant the name of a cell where `difference` finds one, beginning with
 * `from`; less than 0: none. Each in a process of its own. */
extern void probed_mutants(long (*difference)(long from), std::string (*name)(long cell));

/* Does what MODEL_MUTANT says, and appends the ways taken to the file MODEL_WAYS. */
extern void probed_begin();
extern void probed_end();

#endif
