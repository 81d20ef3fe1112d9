/*
 * ledger.h - typed calls to the tables of op_ledger: by statements (ledger.c), and
 * row by row where it has to be fast (ledger_rows.c and its like).
 *
 * Every call stands between ledger_begin() and ledger_end(), inside a
 * transaction. Results are in the memory context that was current at
 * ledger_begin(). The caller's search_path is pinned to pg_catalog and the
 * extension's schema, so that a plan that is made anew means the same.
 */
#ifndef OPL_LEDGER_H
#define OPL_LEDGER_H

#include "postgres.h"

#include "rules/decide.h"
#include "wire/exchange.h"
#include "store/home.h"
#include "lib/stringinfo.h"
#include "storage/itemptr.h"
#include "utils/array.h"
#include "utils/jsonb.h"

/* A row of op_operation. */
typedef struct LedgerOperation
{
	char           *op_id;
	char           *action;
	char           *provider;
	OplOperation    op; /* not_after is op_request's: the caller fills it in */
	char           *external_id;
	int             nfailed;
	char          **failed_ids;
	char           *reason;
	bytea          *args_hash;
	TimestampTz     created_at;
	TimestampTz     lease_until; /* OPL_NEVER: no client ever claimed it */
	TransactionId   xmin;        /* wrote this version */
	ItemPointerData row;         /* where it is, while we hold it */
} LedgerOperation;

/* A row of op_request. */
typedef struct LedgerRequest
{
	char       *op_id;
	int         generation;
	Jsonb      *args;
	char       *method;
	char       *url;
	int         nheaders;
	char      **headers;
	char       *body; /* NULL: none */
	size_t      body_len;
	TimestampTz not_before; /* OPL_NEVER: none */
	TimestampTz not_after;
	char       *key;
	char       *traceparent;
} LedgerRequest;

/* A row of op_due that we hold. */
typedef struct LedgerDue
{
	char           *op_id;
	char           *provider;
	OplStep         step;
	ItemPointerData row;
	TimestampTz     due_at;
} LedgerDue;

/* What is to be written about one operation. */
typedef struct LedgerChange
{
	const char     *op_id;
	const char     *provider;
	OplDecision     decision;
	const char     *external_id; /* NULL: as it is */
	const char     *failed_id;   /* joins failed_ids; NULL: none does */
	const char     *reason;
	bool            claimed;     /* the agenda's row carries our epoch */
	bool            for_client;  /* its send waits for op_claim() */
	TimestampTz     lease_until; /* of an adoption; 0: as it is */
	ItemPointerData row;         /* of op_operation */
	ItemPointerData due;         /* of op_due, which we hold; invalid: there is none */
} LedgerChange;

/* A row of op_attempt. */
typedef struct LedgerAttempt
{
	const char     *op_id;
	int             n;
	const char     *kind;
	int             generation;
	const char     *verdict;
	const char     *reason;
	const char     *external_id;
	const char     *request_id;
	const Evidence *evidence; /* NULL: there was no exchange we saw the end of */
	StringInfo      headers;  /* what came before it on earlier pages, NULL: nothing */
	StringInfo      bodies;
	int             pages; /* of a list that were read */
	TimestampTz     started_at;
	TimestampTz     finished_at;
} LedgerAttempt;

/* What may be claimed now, for one provider and step. */
typedef struct LedgerPlaces
{
	const char *provider;
	OplStep     step;
	int         places; /* rows that are looked at */
	int         free;   /* of them, those that can go out */
	TimestampTz since;  /* rows due before were taken already; -infinity: all */
} LedgerPlaces;

typedef struct LedgerProvider
{
	char *name;
	bool  paused;
	int   concurrency; /* sends at once */
} LedgerProvider;

/* One operation to be born. */
typedef struct LedgerBirth
{
	const char  *op_id;
	const char  *action;
	const char  *provider;
	const char  *submitted_by;
	const uint8 *args_hash;
	Jsonb       *args;
	const char  *run_id, *lane, *step, *tool_call_id, *dedupe_key, *traceparent;
	Datum        not_before, not_after, cost;
	bool         no_not_before, no_not_after, no_cost;
	const char  *key;
	const char  *method;
	const char  *url;
	int          nheaders;
	char       **headers;
	const char  *body;
	size_t       body_len;
	OplDecision  born;
	const char  *digest; /* of the request, when it is held; NULL otherwise */
} LedgerBirth;

extern void ledger_begin(Oid schema);
extern void ledger_end(void);

/* ---- op_execute: as the caller, with transactions of its own. Receipts are
 * in the memory context that was current at the begin. */
extern void  ledger_begin_nonatomic(Oid schema);
extern void  ledger_commit(void);
extern Datum ledger_call_submit(text *op_id, text *action, Jsonb *args);
extern Datum ledger_call_status(text *op_id);

/* ---- configuration */
extern uint64          ledger_config_edition(void); /* as config_edition() */
extern bool            ledger_action(const char *action, char **provider, int64 *version,
									 bool *paused);
extern Jsonb          *ledger_spec(const char *action);
extern char          **ledger_actions(int *count);
extern LedgerProvider *ledger_providers(int *count);
extern LedgerProvider *ledger_provider(const char *name);        /* NULL: it is gone */
extern int             ledger_concurrency(const char *provider); /* as its spec says */

extern char **ledger_actions_of(const char *provider, int *count);

/* ---- sessions */
/* Operations that an exchange showed with this external id. */
extern char **ledger_with_object(const char *external_id, int *count);
/* Did this event come before? If not, `n` is its number. Holds the operation. */
extern bool ledger_has_event(const char *op_id, const char *event_id, int *n);
/* What is known already is in `there`. What is not is frozen, which fills in the rest
 * of the birth, and inserted. False, and nothing there: somebody was faster. */
typedef void (*LedgerFreeze)(LedgerBirth *birth, const void *how);
extern bool ledger_insert(LedgerBirth *birth, LedgerFreeze freeze, const void *how,
						  LedgerOperation **there);
extern LedgerOperation *ledger_read(const char *op_id, bool snapshot_of_caller);
extern LedgerOperation *ledger_lock(const char *op_id); /* waits for the row */
/* The rows at these places, which we hold. */
extern LedgerOperation *ledger_operations_at(const ItemPointerData *rows, int n);
extern TimestampTz      ledger_due_at(const char *op_id,
									  bool        snapshot_of_caller); /* OPL_NEVER: none */
extern void             ledger_nudge(const char *op_id);
extern void             ledger_off_agenda(const char *op_id);
extern LedgerRequest   *ledger_request(const char *op_id, int generation);
extern void             ledger_next_generation(const LedgerOperation *before,
											   const OplDecision     *after,
											   const LedgerRequest   *request);
extern char            *ledger_held_digest(const char *op_id); /* NULL: none on record */
/* op_id NULL: about the ledger as a whole */
extern void ledger_event(const char *op_id, const char *actor, const char *event,
						 const char *note);
/* NONE: nothing */
extern OplStep ledger_agenda(const char *op_id, bool snapshot_of_caller,
							 TimestampTz *due_at);

/* ---- the worker: never waits for a session */
extern int64 ledger_new_epoch(void);
/* What epochs before ours hold that are not among the living comes due now. */
extern void ledger_recover(int64 mine, const int64 *living, int n, TimestampTz now);
/* May this copy send? */
extern HomeFault ledger_home_fault(Oid extension);
/* Due rows: at most `limit`, as many as there are places, none of `avoided`, which
 * are sorted. */
extern LedgerDue  *ledger_take_due(const LedgerPlaces *places, int nplaces, int limit,
								   char **avoided, int navoided, TimestampTz now,
								   int *count);
extern TimestampTz ledger_next_due(const LedgerPlaces *places, int nplaces,
								   TimestampTz now);
/* Those that nobody else holds. Where they were is looked at first; NULL: not known. */
extern LedgerOperation *
ledger_lock_operations(char **op_ids, const ItemPointerData *were_at, int n, int *count);
extern LedgerDue *ledger_lock_due(char **op_ids, const ItemPointerData *were_at, int n,
								  int *count);
extern char     **ledger_have_due(char **op_ids, int n, int *count);
extern LedgerRequest *ledger_requests(char **op_ids, const int *generations, int n,
									  int *count);
/* These two say in the changes where the rows are afterwards. */
extern void        ledger_save(LedgerChange *changes, int n, TimestampTz now);
extern void        ledger_save_one(const LedgerChange *change, TimestampTz now);
extern void        ledger_plan(LedgerChange *changes, int n, int64 epoch);
extern void        ledger_record(const LedgerAttempt *attempts, int n);
extern bool        ledger_pause(const char *provider, const char *note);
extern char      **ledger_take_nudges(int *count);
extern TimestampTz ledger_last_lookup(const char *op_id); /* OPL_NEVER: none */

/* ---- client executors */
extern void ledger_lease(const char *op_id, TimestampTz until);
/* What is on record of an exchange; false: nothing. */
extern bool ledger_attempt(const char *op_id, int n, char **kind, int *generation,
						   TimestampTz *started_at);
/* Numbers of what came by itself: -1, -2, … */
extern int ledger_next_late(const char *op_id);

/* ---- a copy takes over: in one transaction, between lock and the last batch */
extern void ledger_lock_homes(void);
extern void ledger_settle_home(const HomeRow *here, const char *actor, TimestampTz now);
/* All that has not ended for good, locked, `max` at a time; not_after is filled
 * in. NULL: no more. Results and what is made of them go to `context`. */
extern LedgerOperation *ledger_adopt_next(int max, MemoryContext context, int *count);
extern void             ledger_adopt_save(LedgerChange *changes, int n, const char *actor,
										  const char *note);

#endif
