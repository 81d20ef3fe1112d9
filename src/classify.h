/*
 * classify.h - what one exchange proves: spec and evidence -> verdict.
 *
 * Pure: no SPI, no clock, nothing raised by what a provider answered.
 */
#ifndef OPL_CLASSIFY_H
#define OPL_CLASSIFY_H

#include "exchange.h"
#include "spec.h"

/* Whose answer it should be. op_id NULL: the marker is not compared. */
typedef struct Ours
{
	const char *op_id;
	int         generation;
} Ours;

typedef struct Judgement
{
	OplVerdict verdict;
	char      *reason;      /* a short word: timeout, http_500, key_in_use, … */
	char      *external_id; /* of the object that decided, or NULL */
	char      *request_id;  /* the provider's own id of the request, or NULL */
	OplMoment  retry_at;    /* OPL_NEVER: not said */
	bool       keyed;       /* from behind the key store */
	bool       same_generation;
} Judgement;

extern Judgement classify_send(const Spec *spec, const Ours *ours,
							   const Evidence *evidence);
extern Judgement classify_lookup(const Spec *spec, const Ours *ours,
								 const Evidence *evidence);

#endif
