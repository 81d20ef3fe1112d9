/*
 * finding.h - what a judgement means beside the operation that it is about.
 *
 * Worker, webhooks and whoever else brings evidence meet here: the same finding,
 * the same decision, the same words.
 */
#ifndef OPL_FINDING_H
#define OPL_FINDING_H

#include "postgres.h"

#include "spec/classify.h"
#include "spec/freeze.h"
#include "store/operation.h"
#include "spec/spec.h"

/* What the provider promises about an operation. Where its object is known, a
 * poll is a lookup; what clients were leased takes the place of margin. `judgement` NULL:
 * nothing new is known. */
extern OplPromises finding_promises(const Spec *spec, const LedgerOperation *operation,
									const Judgement *judgement);

/* What lookups of it are about. `request` is of its generation. */
extern Subject finding_subject(const LedgerOperation *operation,
							   const LedgerRequest   *request);

/* Is the operation asked after by its external id, and not in a list? */
extern bool finding_polls(const Spec *spec, const LedgerOperation *operation,
						  OplState state);

/* The clock as decisions see it, read once what they are about is locked: then no
 * moment on record is later, unless the clock was set back. The same moment by the
 * steady clock goes to `steady`; NULL: of no use. */
extern OplClock finding_clock(int64 *steady);

extern OplFinding finding_of(const Ledger *ledger, const LedgerOperation *operation,
							 const Judgement *judgement, OplKind kind,
							 TimestampTz started_at);

/* What is to be stored: its words, and whose object it is. */
extern void finding_apply(LedgerChange *change, const Judgement *judgement);

/* Store, in a session, what follows from evidence, and tell those who wait. The
 * agenda is deleted from and inserted into, never updated. `operation` becomes what
 * is stored; its row is locked. */
extern void finding_store(const Ledger *ledger, LedgerOperation *operation,
						  const OplDecision *decision, const Judgement *judgement,
						  bool for_client, TimestampTz now);

#endif
