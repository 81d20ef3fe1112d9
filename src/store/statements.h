/*
 * statements.h - every statement of the ledger, by name.
 *
 * Those of the worker reach rows by key or ctid alone, so that no statistics can tip
 * their plans, and lock with SKIP LOCKED before they write. What op_submit() and
 * every turn do needs no statement: tuples.h.
 * The caller's search_path is pinned; "@." stands for the extension's schema.
 */
#ifndef OPL_STATEMENTS_H
#define OPL_STATEMENTS_H

#include "postgres.h"

#define MAX_ARGS 8

typedef struct Statement
{
	const char *text;
	int         nargs;
	Oid         args[MAX_ARGS];
} Statement;

typedef enum StatementId
{
	STMT_SPEC,
	STMT_ACTIONS,
	STMT_ACTIONS_OF,
	STMT_WITH_OBJECT,
	STMT_EVENTS,
	STMT_CONCURRENCY,
	STMT_NUDGE,
	STMT_OFF_AGENDA,
	STMT_EVENT,
	STMT_EPOCH,
	STMT_RECOVER,
	STMT_PAUSE,
	STMT_TAKE_NUDGES,
	STMT_LAST_LOOKUP,
	STMT_NEXT_GENERATION,
	STMT_NEXT_REQUEST,
	STMT_HELD_DIGEST,
	STMT_LEASE,
	STMT_ATTEMPT,
	STMT_NEXT_LATE,
	STMT_LOCK_HOMES,
	STMT_RETIRE_HOMES,
	STMT_SETTLE_HOME,
	STMT_EVENT_ID,
	STMT_ADOPT_SCAN,
	STMT_ADOPT_SAVE,
	STMT_ADOPT_EVENTS,
	STMT_COUNT
} StatementId;

extern const Statement statements[STMT_COUNT];

#endif
