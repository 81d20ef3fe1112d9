/*
 * decide.h - what follows from evidence, from a claim, and from a person's word.
 *
 * Plain C and pure: no PostgreSQL header, no allocation, no clock, no state of
 * its own. The worker, the SQL functions and the model checker (test/model) all
 * link this one file. Moments and durations are microseconds.
 */
#ifndef OPL_DECIDE_H
#define OPL_DECIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "rules/state.h"

typedef int64_t OplMoment;
#define OPL_NEVER INT64_MIN

#define OPL_SECOND INT64_C(1000000)
#define OPL_MINUTE (60 * OPL_SECOND)

/* What can be known of moments. Between two that are not earlier than `steady_since`
 * the time that passed is their distance; how long ago earlier ones were, nobody
 * knows, but that they were not later than it. A moment later than `now` is from
 * before the clock was set back. */
typedef struct OplClock
{
	OplMoment now;
	OplMoment steady_since;
	OplMoment set_back_from; /* moments up to here may be too late; OPL_NEVER: none */
	OplMoment set_back_by;   /* by as much, at most */
} OplClock;

/* This generation is not sent any more, and why. */
#define OPL_SEALS(X)                                                            \
	X(NONE, "none")                                                             \
	X(REFUSED, "refused")   /* a refusal that may be the key's stored answer */ \
	X(EVIDENCE, "evidence") /* an answer that may stem from an effect */        \
	X(SEEN, "seen")         /* the provider showed us the object */

typedef enum OplSeal
{
#define X(id, name) OPL_SEAL_##id,
	OPL_SEALS(X)
#undef X
		OPL_SEAL_COUNT
} OplSeal;

/* What one exchange proves; classify.c says which; doc/reference.md lists them. */
#define OPL_VERDICTS(X)               \
	X(NOT_SENT, "not_sent")           \
	X(NOT_PROCESSED, "not_processed") \
	X(CONFIRMED, "confirmed")         \
	X(ACCEPTED, "accepted")           \
	X(REJECTED, "rejected")           \
	X(BLOCKED, "blocked")             \
	X(IN_PROGRESS, "in_progress")     \
	X(ALREADY_DONE, "already_done")   \
	X(MISMATCH, "mismatch")           \
	X(STORED_ERROR, "stored_error")   \
	X(UNKNOWN, "unknown")             \
	X(FOUND, "found")                 \
	X(FOUND_PENDING, "found_pending") \
	X(FOUND_FAILED, "found_failed")   \
	X(ABSENT, "absent")               \
	X(CONTRADICTION, "contradiction") \
	X(INCONCLUSIVE, "inconclusive")

typedef enum OplVerdict
{
#define X(id, name) OPL_V_##id,
	OPL_VERDICTS(X)
#undef X
		OPL_VERDICT_COUNT
} OplVerdict;

/* Which answers the provider keeps under an idempotency key. */
#define OPL_STORES(X)                                                  \
	X(NOTHING, "nothing")                                              \
	X(SUCCESS, "success")                                              \
	X(STATE, "state") /* not the answer: the object's present state */ \
	X(ALL, "all")

typedef enum OplStores
{
#define X(id, name) OPL_STORES_##id,
	OPL_STORES(X)
#undef X
		OPL_STORES_COUNT
} OplStores;

typedef enum OplStep
{
	OPL_STEP_NONE,
	OPL_STEP_SEND,
	OPL_STEP_LOOKUP
} OplStep;

/* Whose evidence it is. */
typedef enum OplKind
{
	OPL_KIND_SEND,   /* the answer of the attempt that is under way */
	OPL_KIND_LOOKUP, /* of the lookup that is under way */
	OPL_KIND_DOOR,   /* a webhook */
	OPL_KIND_LATE    /* the answer of an attempt that was fenced meanwhile */
} OplKind;

/* The object in the evidence beside the external id that is on record. An id
 * on record that is known to have failed counts as none. */
typedef enum OplObject
{
	OPL_OBJECT_NONE,
	OPL_OBJECT_SAME,
	OPL_OBJECT_OTHER
} OplObject;

/* Whose account is sent to and how it is asked, as a digest; alike means the same.
 * What one place shows says nothing of what was sent to another. */
typedef int64_t OplPlace;
#define OPL_NOWHERE 0     /* not sent */
#define OPL_ANYWHERE (-1) /* nobody knows: not the present place, whatever that is */

/* What decisions know of an operation: columns of op_operation. */
typedef struct OplOperation
{
	OplState  state;
	OplSeal   sealed;
	bool      tainted;       /* a request of ours may have taken effect */
	bool      contradiction; /* noted; only a person closes it */
	bool      adopted;       /* another time line may have sent for it */
	int       generation;
	int       attempts;      /* exchanges of all kinds and generations */
	int       tries;         /* sends of this generation that may have worked */
	OplMoment trying_since;  /* first claim of the generation */
	OplMoment first_sent_at; /* first claim the window counts from */
	OplMoment last_sent_at;  /* last claim */
	OplMoment not_after;     /* no send from then on */
	OplPlace  place;         /* where this generation was sent */
} OplOperation;

/* What a provider promises for an action, and how patient we are. */
typedef struct OplPromises
{
	OplMoment ttl; /* how long the key is remembered; 0: never resend */
	OplStores stores;
	bool      guards; /* while remembered, the key admits no second effect */
	OplMoment margin; /* claim to send, at most; a client's lease instead */
	OplMoment timeout;
	OplMoment flight; /* departure to effect, at most */
	OplMoment lag;    /* effect to visibility in a lookup, at most */
	bool      recipe; /* there is a lookup */
	int       attempts;
	OplMoment patience;
	OplMoment give_up;
	OplMoment initial; /* back-off: initial * base^n, at most max */
	double    base;
	OplMoment max;
	double    jitter; /* 0 none .. 1 full */
	bool      client; /* only who holds a ticket of op_claim() sends */
	OplPlace  place;  /* where it is sent and asked for now */
} OplPromises;

/* What one exchange showed. */
typedef struct OplFinding
{
	OplVerdict verdict;
	OplKind    kind;
	bool       keyed; /* the answer comes from behind the key store */
	OplMoment  started_at;
	OplMoment  retry_at; /* Retry-After as a moment, or OPL_NEVER */
	OplObject  object;
	bool       object_failed;   /* this very object is on record as failed */
	bool       same_generation; /* its marker is the present generation's */
	bool       unmarked;        /* a 2xx shows an object without a marker. Of absence: a
								 * send was answered 2xx, and what it made may be among
								 * what is not ours, since its marker cannot be read */
	double dice;                /* 0 <= dice < 1, drawn by the caller */
} OplFinding;

/* What follows. `after` is the operation as it is to be stored. */
typedef struct OplDecision
{
	OplOperation after;
	OplStep      step;
	OplMoment    due_at;
	bool         moved;       /* false: the evidence is only recorded */
	bool         pause;       /* sends to the provider pause, tell a person */
	bool         take_object; /* the object's id is the external id now */
	bool         note_failed; /* the object's id joins the failed ones */
	const char  *reason;      /* NULL: the finding's own reason says it */
} OplDecision;

typedef enum OplClaim
{
	OPL_CLAIM_SEND,   /* stored as submitted: commit, then send */
	OPL_CLAIM_LOOKUP, /* stored with one more attempt: commit, then ask */
	OPL_CLAIM_CLIENT, /* a send that waits for a client's op_claim() */
	OPL_CLAIM_NOTHING /* the decision says what to store instead */
} OplClaim;

/* Evidence: the door, then the table of verdicts (decide.c). */
extern OplDecision opl_decide(const OplOperation *op, const OplPromises *promises,
							  const OplFinding *finding, OplClock clock);

/* A row of the agenda came due. */
extern OplClaim opl_claim(const OplOperation *op, const OplPromises *promises,
						  OplStep step, OplClock clock, OplDecision *decision);

/* Was it sent to another place than the one that is asked now? */
extern bool opl_elsewhere(const OplOperation *op, const OplPromises *promises);

/* A client wants to send and report within `lease`: never OPL_CLAIM_CLIENT. */
extern OplClaim opl_claim_ticket(const OplOperation *op, const OplPromises *promises,
								 OplMoment lease, OplClock clock, OplDecision *decision);

/* The row came due while its own exchange is still in hand: a session holds the
 * operation, so that the answer cannot be settled. The same step, later. */
extern OplDecision opl_put_off(const OplOperation *op, OplStep step, OplMoment now);

/* Somebody asked about it again: may it be looked up before `due_at`, but not
 * sooner than `initial` after the last look? False: all stays as it is. */
extern bool opl_nudge(const OplOperation *op, const OplPromises *promises,
					  OplMoment last_look, OplMoment due_at, OplClock clock,
					  OplDecision *decision);

/* The machine fails on it, whatever it tries: a person takes it, and nothing of it
 * is tried until somebody asks for that. False: it is in somebody's hands already. */
extern bool opl_condemn(const OplOperation *op, OplMoment now, OplDecision *decision);

/* From when on nothing that was sent can still arise, lookups that fail are given up,
 * nothing is tried any more, and the key may be forgotten. OPL_NEVER: no such moment. */
extern OplMoment opl_quiet_at(const OplOperation *op, const OplPromises *promises,
							  OplClock clock);
extern OplMoment opl_gives_up_at(const OplOperation *op, const OplPromises *promises,
								 OplClock clock);
extern OplMoment opl_patience_ends_at(const OplOperation *op, const OplPromises *promises,
									  OplClock clock);
extern OplMoment opl_key_forgotten_at(const OplOperation *op, const OplPromises *promises,
									  OplClock clock);

/* How an operation is born. */
extern OplDecision opl_born(bool held, bool lookup_first, OplMoment not_after,
							OplMoment due_at);

/* What people do. Each answers OPL_VERB_OK or why not. */
typedef enum OplVerb
{
	OPL_VERB_OK,
	OPL_VERB_WRONG_STATE,
	OPL_VERB_TOO_LATE,       /* cancel: sent already, the outcome is pending */
	OPL_VERB_NOT_QUIET,      /* a request under way may still take effect */
	OPL_VERB_NO_EXTERNAL_ID, /* resolve as confirmed: which object? */
	OPL_VERB_CONTRADICTION,  /* recheck: a person must resolve it */
	OPL_VERB_NO_LOOKUP       /* recheck: there is no way to ask */
} OplVerb;

extern OplVerb opl_cancel(const OplOperation *op, OplDecision *decision);
extern OplVerb opl_recheck(const OplOperation *op, const OplPromises *promises,
						   OplMoment now, OplDecision *decision);
extern OplVerb opl_approve(const OplOperation *op, bool lookup_first,
						   OplMoment not_before, OplMoment now, OplDecision *decision);
extern OplVerb opl_reject(const OplOperation *op, OplDecision *decision);
extern OplVerb opl_resolve(const OplOperation *op, const OplPromises *promises,
						   OplState outcome, bool has_external_id, OplClock clock,
						   OplDecision *decision);
extern OplVerb opl_reissue(const OplOperation *op, const OplPromises *promises,
						   bool lookup_first, OplMoment not_before, OplClock clock,
						   OplDecision *decision);

/* A copy, a promoted standby or a restored backup takes over.
 * `guarded`: fail-over where keys still guard (op_ledger.failover = continue). */
extern OplDecision opl_adopt(const OplOperation *op, const OplPromises *promises,
							 OplMoment created_at, bool guarded, OplClock clock);

/* Names, for SQL and for stories. */
extern const char *opl_seal_name(OplSeal seal);
extern bool        opl_seal_parse(const char *name, OplSeal *seal);
extern const char *opl_verdict_name(OplVerdict verdict);
extern bool        opl_verdict_parse(const char *name, OplVerdict *verdict);
extern const char *opl_step_name(OplStep step); /* NULL for none */
extern bool        opl_step_parse(const char *name, OplStep *step);

#endif
