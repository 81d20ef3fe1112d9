/*
 * classify.h - what one exchange proves: spec and evidence -> verdict.
 *
 * Pure: no SPI, no clock, nothing raised by what a provider answered.
 */
#ifndef OPL_CLASSIFY_H
#define OPL_CLASSIFY_H

#include "wire/exchange.h"
#include "spec/spec.h"

/* Whose answer it should be. op_id NULL: the marker is not compared. */
typedef struct Ours
{
	const char *op_id;
	int         generation;
	const char *name_space;  /* that its markers were made with; NULL: none */
	char       *external_id; /* that a poll asked for; NULL: it was no poll */
} Ours;

typedef struct Judgement
{
	OplVerdict verdict;
	char      *reason;      /* a short word: timeout, http_500, key_in_use, … */
	char      *external_id; /* of the object that decided, or NULL */
	char      *objects;     /* all of ours, where several were seen: JSON, or NULL */
	char      *request_id;  /* the provider's own id of the request, or NULL */
	OplMoment  retry_at;    /* OPL_NEVER: not said */
	bool       keyed;       /* from behind the key store */
	bool       same_generation;
	bool       unmarked; /* its object, or all of its list, has no marker */
} Judgement;

extern Judgement classify_send(const Spec *spec, const Ours *ours,
							   const Evidence *evidence);

/* A lookup, page by page. Starts with zeroes. */
typedef struct Search
{
	struct Tally *tally;  /* what the pages so far showed */
	int           pages;  /* that were read */
	int64         seen;   /* items on them */
	Jsonb        *before; /* the last page, when the next must be read; else NULL */
} Search;

/* The next page of a list, or the one object, that a lookup brought. With
 * search->before set the judgement stands only if nobody asks for the next page. */
extern Judgement classify_page(const Spec *spec, const Ours *ours,
							   const Evidence *evidence, Search *search);
/* A lookup of one page. */
extern Judgement classify_lookup(const Spec *spec, const Ours *ours,
								 const Evidence *evidence);
/* The one object that was asked for by its external id. */
extern Judgement classify_poll(const Spec *spec, const Ours *ours,
							   const Evidence *evidence);

/* One object that the provider brought by itself. `known_id`: the id on record,
 * which tells our object where it carries no marker. */
extern Judgement classify_object(const Spec *spec, const Ours *ours, Jsonb *object,
								 const char *known_id);

#endif
